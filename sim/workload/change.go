package workload

import (
	"errors"
	"time"

	"narad/engine"
	"narad/metastore"
)

// change is what the error of a change of a topic says about a disk that fails.
type change uint8

const (
	changeWent    change = iota // nothing
	changeRefused               // it was not made
	changeInDoubt               // it may have been made
)

// failedChange judges the error of a change. Once the metastore has failed at one, which may turn out to be made, it tries no
// other until it is opened again, so the node is restarted, as an operator would.
func (n *node) failedChange(err error) change {
	latched := n.changeFailed
	failed := errors.Is(err, metastore.ErrFailed)
	n.changeFailed = latched || failed
	switch {
	case err == nil || !n.troubled || !ioError(err) && !errors.Is(err, engine.ErrNotPlaced):
		return changeWent
	case failed: // which of those that meet this failure was being made does not show: their answers may overtake each other
		if !latched {
			n.restartLater()
		}
		return changeInDoubt
	}
	return changeRefused
}

func (n *node) restartLater() {
	r, life := n.run, n.boots
	r.clients.Go(n.name+" restart", func() {
		r.e.Sleep(r.pause(2 * time.Second))
		if n.boots == life && n.engine != nil && !r.draining {
			n.m.CrashProcess()
		}
	})
}
