package check

import (
	"math"
	"time"

	"narad/engine"
	"narad/env"
	"narad/segment"
	"narad/sim/model"
)

// moved notes the last instant at which something happened to a partition that may keep its records from being handed out for a
// while, or that made it work anew.
func (n *Node) moved(v engine.Event) {
	var key engine.Key
	switch v := v.(type) {
	case engine.Leased:
		key = v.Key
	case engine.LeaseExtended:
		key = v.Key
	case engine.Settled:
		key = v.Key
	case engine.LeaseEnded:
		key = v.Key
	case engine.ShardOpened:
		key = v.Key
	case engine.CorruptSkipped:
		key = v.Key
	case engine.FrontierJumped:
		key = v.Key
	case engine.LimitsSet:
		key = v.Key
	case engine.Log:
		key = v.Key
	default:
		return
	}
	if p := n.parts[key]; p != nil {
		p.movedAt = n.now()
	}
}

// Empty judges the answer "nothing there" to a consume that was sent at asked, true time (INV-24). A partition with records that
// are not resolved is quiet for a visibility timeout and a second at most: every lease, and with it the hole under the
// acked-ahead cap, has ended by then, so whoever asks gets something.
func (n *Node) Empty(topic string, partition int32, asked env.Instant) error {
	if !n.serving || n.closing || asked < n.booted {
		return nil
	}
	for _, p := range n.order {
		if p.key.Topic != topic || partition != engine.AnyPartition && partition != p.key.Partition || p.gone || n.parts[p.key] != p {
			continue
		}
		committed, open := p.model.Committed()
		if !open || committed+1 >= p.model.HW {
			continue
		}
		limit := p.model.Visibility + time.Second + n.slack()
		since := max(p.movedAt, int64(n.booted), int64(n.pausedUntil))
		if quiet := time.Duration(int64(asked) - since); quiet > limit+limit/1_000_000*driftPPM {
			return model.Violate("INV-24", "%s %s/%d: a consume found nothing after the partition had been quiet for %v; the frontier is %d, the high watermark %d, %d leases, %d acked ahead",
				n.name, p.key.Topic, p.key.Partition, quiet, committed, p.model.HW, p.model.Leases(), p.model.Ahead())
		}
	}
	return nil
}

// Waited judges how long a consume that was sent at asked, true time, waited before it was answered "nothing there": not less than it
// wanted to, and, when the disk is prompt, little more (API-02).
func (n *Node) Waited(asked env.Instant, wait time.Duration, prompt bool) error {
	const late = 4 * time.Second // a call of the disk may hang
	waited, drift := n.World.Now().Sub(asked), wait/1_000_000*driftPPM+time.Microsecond
	disturbed := !prompt || !n.serving || n.closing || asked < n.booted || asked < n.pausedUntil
	if waited < wait-drift || !disturbed && waited > wait+drift+late+n.slack() {
		return model.Violate("API-02", "%s: a consume was answered that there is nothing after %v, it asked to wait for %v", n.name, waited, wait)
	}
	return nil
}

// retries follows commits that failed: each is tried again, soon after the first time and within a second after many (WAL-27).
func (n *Node) retries(v engine.Event) {
	switch v := v.(type) {
	case engine.Opened:
		clear(n.cycle.failed)
	case engine.DispatchFailed:
		if v.Gone {
			break
		}
		n.cycle.failed[v.Key] = failure{n.now(), n.cycle.failed[v.Key].times + 1}
		if p := n.parts[v.Key]; p != nil && p.gone { // a topic is gone a moment before its commits know it
			n.awaitsNoTry(v.Key)
		}
	case engine.DestinationHung:
		n.awaitsNoTry(v.Key) // it was tried again, and how that ends is open
	case engine.Stored:
		delete(n.cycle.failed, v.Key)
	}
}

// awaitsNoTry ends the wait for another try, if there is one.
func (n *Node) awaitsNoTry(key engine.Key) {
	if f, failed := n.cycle.failed[key]; failed {
		n.cycle.failed[key] = failure{never64, f.times}
	}
}

// failure is a commit that failed, and was not tried again as far as is known.
type failure struct {
	at    int64 // true time; never64: it was tried again, or never will be, as its topic is gone
	times int   // one after the other
}

const never64 = math.MaxInt64

// How long a failed commit waits for its next try: at first, and at most, for twice as long each time.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// pause is how long it waits.
func (f failure) pause() time.Duration { return min(retryFirst<<min(f.times-1, 10), retryMost) }

// Retried checks, when all is at rest, that no commit that failed waits for longer than it may.
func (n *Node) Retried() {
	for _, p := range n.order {
		f, failed := n.cycle.failed[p.key]
		if !failed || f.at == never64 || p.gone || n.parts[p.key] != p || n.World.Now() < n.pausedUntil.Add(5*time.Second) || !n.serving {
			continue
		}
		if since := time.Duration(n.now() - f.at); since > f.pause()+n.slack()+f.pause()/1_000_000*driftPPM {
			n.failPart(p, model.Violate("INV-31", "all is at rest, a commit failed %v ago for the time number %d in a row and was not tried again (WAL-27)", since, f.times))
		}
	}
}

// inert is a reservation by a task whose log was closed before it took it.
type inert struct{ offset, nonce int64 }

// closedLog follows reservations that are to be read from a log which is closed (INV-26): such a read answers that and nothing
// else, so the reservation is given back, and the task changes nothing.
func (n *Node) closedLog(v engine.Event) {
	n.retries(v)
	task := n.World.Current().ID()
	switch v := v.(type) {
	case engine.Log:
		p := n.cycle.all[incKey{v.Key, v.Incarnation}]
		if p == nil {
			return
		}
		switch v.Event.(type) {
		case segment.Closed:
			p.openLogs = max(0, p.openLogs-1) // one that failed may be closed after its successor was opened
			p.logClosed = p.openLogs == 0
		case segment.Recovered:
			p.openLogs++
			p.logClosed = false
		}
	case engine.Leased:
		delete(n.inert, task)
		if p := n.cycle.all[incKey{v.Key, v.Incarnation}]; p != nil && p.logClosed {
			n.inert[task] = inert{v.Lease.Offset, v.Lease.Nonce}
		}
	case engine.LeaseEnded:
		if r, ok := n.inert[task]; ok && r.nonce == v.Nonce {
			delete(n.inert, task)
			n.Goal("a reservation on a closed log was given back")
		}
	case engine.FrontierJumped:
		n.changedByClosed(task, v.Key, "moved the frontier")
	case engine.JumpLost:
		n.changedByClosed(task, v.Key, "tried to move the frontier")
	case engine.CorruptSkipped:
		n.changedByClosed(task, v.Key, "skipped an offset as corrupt")
	case engine.Delivered:
		if r, ok := n.inert[task]; ok && r.nonce == v.Nonce {
			n.changedByClosed(task, v.Key, "delivered a record")
		}
	}
}

func (n *Node) changedByClosed(task int64, key engine.Key, what string) {
	if r, ok := n.inert[task]; ok {
		n.fail(model.Violate("INV-26", "%s/%d: a consume that held a closed log %s, after it had reserved offset %d", key.Topic, key.Partition, what, r.offset))
	}
}
