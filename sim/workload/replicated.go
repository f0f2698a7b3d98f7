package workload

import (
	"errors"
	"time"

	"narad/env"
	"narad/metastore"
	"narad/sim"
)

// ReplicatedProfile is churn on a metastore of several voters: leaders are missing, or are lost in the middle of a change, which
// is then made, made later or not made, and shown late by the node's replica.
const ReplicatedProfile Profile = "replicated"

func replicated(w *sim.World, p *plan) {
	churn(w, p)
	p.Churn = pick(w, time.Second, 200*time.Millisecond)
}

// metastore returns what an engine keeps its topics in; nil is a metastore of its own.
func (n *node) metastore(e *env.Env) metastore.Store {
	if n.run.plan.Flavour != string(ReplicatedProfile) {
		return nil
	}
	if n.quorum == nil {
		n.quorum = metastore.NewQuorum()
	}
	return n.quorum.Open(e, n.fate)
}

// fate draws what becomes of a change of the metastore.
func (n *node) fate() (f metastore.Fate) {
	w := n.run.w
	if n.run.draining {
		return f
	}
	f.Takes = w.Duration(0, 20*time.Millisecond)
	switch w.Choose(10) {
	case 0:
		f.NoLeader = true
	case 1, 2:
		f.Lost = true
		if f.Applied = w.Choose(3) > 0; f.Applied {
			f.After = pick(w, 0, w.Duration(0, 50*time.Millisecond))
			f.Lag = pick(w, 0, w.Duration(0, 200*time.Millisecond))
		}
		n.check.Goal("metastore: a leader was lost in a change")
	}
	return f
}

// refusedLeaderless reports an answer that says that nothing was done, as nobody led.
func refusedLeaderless(err error) bool { return errors.Is(err, metastore.ErrNoLeader) }

// isUncertain reports an answer that says that a change was made or not, or may still be.
func isUncertain(err error) bool { return errors.Is(err, metastore.ErrUncertain) }
