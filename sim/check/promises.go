package check

import (
	"narad/committer"
	"narad/engine"
	"narad/sim/model"
)

// Promises of single requirement lines, each checked at the event that shows it.

// seePromises is shown every event, before the models are told of it.
func (n *Node) seePromises(v engine.Event) {
	switch v := v.(type) {
	case engine.Opened:
		n.cleanStart(v)
	case engine.Leased:
		n.guessable(v)
	case engine.ConsumerSnapshot:
		n.tellsState(v)
	case engine.Consumer:
		n.seeCadence(v.Event)
		if c, closed := v.Event.(committer.Closed); closed && c.Err != nil {
			n.mayBeClean = false // what is on the disk is not all that there was
		}
	}
}

// cleanStart checks that a start takes the stop before it for a graceful one only if one had begun since the start before (REC-07).
func (n *Node) cleanStart(v engine.Opened) {
	if v.Clean && !n.mayBeClean {
		n.fail(model.Violate("REC-07", "a start after a crash takes the stop for a graceful one"))
	}
	n.mayBeClean = false
}

// near nonces are closer than one in 2^43 pairs of random ones.
const near = 1 << 20

// guessable checks that a nonce tells nothing of the next one (INF-23, INF-25).
func (n *Node) guessable(v engine.Leased) {
	if d := v.Lease.Nonce - n.lastNonce; n.lastNonce != 0 && d > -near && d < near {
		n.fail(model.Violate("INF-23", "the nonce %d was followed by %d: who saw one can guess the next", n.lastNonce, v.Lease.Nonce))
	}
	n.lastNonce = v.Lease.Nonce
}

// Meddled tells that somebody changed the files of a partition under the node: what it says of that is no failure.
func (n *Node) Meddled(key engine.Key) {
	if n.meddled == nil {
		n.meddled = map[engine.Key]bool{}
	}
	n.meddled[key] = true
}
