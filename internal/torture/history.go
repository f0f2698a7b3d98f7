package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// copyID names one stored copy of a message.
type copyID struct {
	topic     string
	partition int
	offset    int64
}

func (c copyID) String() string { return fmt.Sprintf("%s/%d @%d", c.topic, c.partition, c.offset) }

// outcome is how a request ended, as its client saw it.
type outcome uint8

const (
	unknown outcome = iota // no answer, or one that leaves it open
	ok                     // 202, 204
	refused                // 410, or a request that certainly never reached the server
)

// Instants are durations since the start of the history; life is the number of the server process that was asked.
type (
	produceOp struct {
		message int
		outcome outcome
	}
	delivery struct {
		copy      copyID
		handle    string
		message   int
		life      int
		call, ret time.Duration
	}
	settleOp struct {
		copy      copyID
		handle    string
		verb      verb
		life      int
		call, ret time.Duration
		outcome   outcome
	}
	// death is the end of a server process.
	death struct {
		at       time.Duration // before the signal was sent
		over     time.Duration // when there was no process any more
		graceful bool
		stopped  time.Duration // how long the process stood still (SIGSTOP) in its life: its ticks were late by that
	}
)

type verb uint8

const (
	ack verb = iota
	nack
	extend
)

// history is what clients saw of a server that was killed and started again, from an empty queue to a drained one.
type history struct {
	visibility time.Duration
	undoneMax  time.Duration // an ack older than this at a kill must survive it
	produced   []produceOp
	deliveries []delivery
	settled    []settleOp
	deaths     []death // by life; the last life has none while it runs
}

// findings is the judgement on a history.
type findings struct {
	violations []string
	undone     int           // deliveries of a copy whose ack had got 204, all explained by a kill
	oldest     time.Duration // the oldest of those acks at the kill that undid it
	copies     int           // stored copies that were delivered
	doubles    int           // messages delivered from more than one stored copy
}

// check judges a history.
//
//   - INV-02, FAIL-12: a message with a 202 has a copy whose ack got 204, or no answer.
//   - DEL-17: nothing is delivered whose produce never reached the server; a copy is always the same message.
//   - INV-05: no copy is handed out while another lease of it is certainly live, and no handle twice.
//   - INV-06, API-04, FAIL-37: 204 only for a handle whose lease can be live, never for one of an earlier process; 410 only
//     for one whose lease can be over.
//   - INV-08, DEL-07, REC-05: a copy that got its 204 comes again only if a kill followed within undoneMax; REC-07: never
//     across a graceful stop.
func (h *history) check() (f findings) {
	c := checker{history: h, findings: &f, leases: map[string]*lease{}}
	for i := range h.deliveries {
		c.deliver(&h.deliveries[i])
	}
	for i := range h.settled {
		c.attach(&h.settled[i])
	}
	byCopy := map[copyID][]*lease{}
	for _, l := range c.order {
		c.settles(l)
		byCopy[l.delivery.copy] = append(byCopy[l.delivery.copy], l)
	}
	owners := map[int]map[copyID]bool{} // by message
	acked := map[int]bool{}
	for _, copy := range sorted(byCopy) {
		leases := byCopy[copy]
		c.sameMessage(leases)
		c.exclusive(leases)
		c.staysSettled(leases)
		for _, l := range leases {
			m := l.delivery.message
			if owners[m] == nil {
				owners[m] = map[copyID]bool{}
			}
			owners[m][copy] = true
			acked[m] = acked[m] || l.mayBeAcked()
		}
	}
	f.copies = len(byCopy)
	for _, copies := range owners {
		if len(copies) > 1 {
			f.doubles++
		}
	}
	for _, p := range h.produced {
		if p.outcome == ok && !acked[p.message] {
			c.violation("message %d got 202 and was never acknowledged (%d copies delivered)", p.message, len(owners[p.message]))
		}
		if p.outcome == refused && owners[p.message] != nil {
			c.violation("message %d was delivered though its produce never reached the server", p.message)
		}
	}
	return f
}

func sorted(m map[copyID][]*lease) []copyID {
	keys := make([]copyID, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b copyID) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	return keys
}

// lease is a delivery with what was done to its handle, in the order of the calls.
type lease struct {
	delivery *delivery
	settles  []*settleOp
}

// mayBeAcked reports whether an ack of the lease succeeded or may have.
func (l *lease) mayBeAcked() bool {
	return slices.ContainsFunc(l.settles, func(s *settleOp) bool { return s.verb == ack && s.outcome != refused })
}

type checker struct {
	*history
	findings *findings
	leases   map[string]*lease
	order    []*lease
}

func (c *checker) violation(format string, args ...any) {
	c.findings.violations = append(c.findings.violations, fmt.Sprintf(format, args...))
}

func (c *checker) deliver(d *delivery) {
	if c.leases[d.handle] != nil {
		c.violation("handle %s was given out twice", d.handle)
		return
	}
	l := &lease{delivery: d}
	c.leases[d.handle] = l
	c.order = append(c.order, l)
}

func (c *checker) attach(s *settleOp) {
	l := c.leases[s.handle]
	if l == nil {
		c.violation("handle %s was settled and never given out: the clients are broken", s.handle)
		return
	}
	l.settles = append(l.settles, s)
	slices.SortStableFunc(l.settles, func(a, b *settleOp) int { return cmp.Compare(a.call, b.call) })
}

// deathOf returns when a life ended at the earliest.
func (c *checker) deathOf(life int) time.Duration {
	if life < len(c.deaths) {
		return c.deaths[life].at
	}
	return 1<<63 - 1
}

// certainlyLiveUntil returns an instant up to which the lease cannot have ended, whatever was not seen: the first
// try to end it, the death of its process, or the earliest expiry. Only tries called before the given one count.
func (c *checker) certainlyLiveUntil(l *lease, before *settleOp) time.Duration {
	end := min(c.deathOf(l.delivery.life), l.delivery.call+c.visibility)
	for _, s := range l.settles {
		if s == before {
			break
		}
		switch {
		case s.verb != extend:
			return min(end, s.call)
		case s.outcome == ok && s.ret < end: // renewed in time for certain
			end = min(c.deathOf(l.delivery.life), s.call+c.visibility)
		}
	}
	return end
}

// possiblyLiveUntil returns an instant after which the lease cannot be live any more.
func (c *checker) possiblyLiveUntil(l *lease, before *settleOp) time.Duration {
	end := l.delivery.ret + c.visibility
	for _, s := range l.settles {
		if s == before {
			break
		}
		switch {
		case s.verb != extend && s.outcome == ok:
			return min(end, s.ret)
		case s.verb == extend && s.outcome != refused:
			end = max(end, s.ret+c.visibility)
		}
	}
	return end
}

// settles checks the answers to what was done with one handle.
func (c *checker) settles(l *lease) {
	for _, s := range l.settles {
		switch {
		case s.life == l.delivery.life:
		case s.outcome == ok:
			c.violation("%v: handle %s of process %d was accepted by process %d", s.copy, s.handle, l.delivery.life, s.life)
			continue
		default:
			continue
		}
		if s.outcome == ok && s.call > c.possiblyLiveUntil(l, s) {
			c.violation("%v: handle %s was accepted at %v, %v after its lease must have ended",
				s.copy, s.handle, s.call, s.call-c.possiblyLiveUntil(l, s))
		}
		if s.outcome == refused && s.ret < c.certainlyLiveUntil(l, s) {
			c.violation("%v: handle %s got 410 at %v, %v before its lease could end",
				s.copy, s.handle, s.ret, c.certainlyLiveUntil(l, s)-s.ret)
		}
	}
}

func (c *checker) sameMessage(leases []*lease) {
	first := leases[0].delivery
	for _, l := range leases[1:] {
		if l.delivery.message != first.message {
			c.violation("%v was message %d and then message %d", first.copy, first.message, l.delivery.message)
		}
	}
}

// exclusive checks that no lease was taken while another one of the same copy was certainly live.
func (c *checker) exclusive(leases []*lease) {
	for _, a := range leases {
		until := c.certainlyLiveUntil(a, nil)
		for _, b := range leases {
			if a != b && b.delivery.life == a.delivery.life && b.delivery.call >= a.delivery.ret && b.delivery.ret < until {
				c.violation("%v: leased to two at once: %s at %v and %s at %v, the first live until %v at least",
					a.delivery.copy, a.delivery.handle, a.delivery.ret, b.delivery.handle, b.delivery.ret, until)
			}
		}
	}
}

// staysSettled checks that what was acknowledged comes again only where a kill explains it.
func (c *checker) staysSettled(leases []*lease) {
	for _, a := range leases {
		for _, s := range a.settles {
			if s.verb != ack || s.outcome != ok {
				continue
			}
			for _, b := range leases {
				if b.delivery.call >= s.ret {
					c.redelivered(s, b.delivery)
				}
			}
		}
	}
}

func (c *checker) redelivered(s *settleOp, d *delivery) {
	switch age := c.deathOf(s.life) - s.ret; {
	case d.life == s.life:
		c.violation("%v: acknowledged at %v and delivered again at %v by the same process", d.copy, s.ret, d.ret)
	case c.deaths[s.life].graceful:
		c.violation("%v: acknowledged at %v and delivered again at %v after a graceful stop", d.copy, s.ret, d.ret)
	case age > c.undoneMax+c.deaths[s.life].stopped:
		c.violation("%v: acknowledged at %v, %v before the kill, and delivered again at %v", d.copy, s.ret, age, d.ret)
	default:
		c.findings.undone++
		c.findings.oldest = max(c.findings.oldest, age)
	}
}
