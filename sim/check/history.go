package check

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"narad/engine"
	"narad/inflight"
	"narad/sim/model"
)

// copyHistory is everything that happened to one stored copy.
type copyHistory struct {
	offset int64
	ops    []model.CopyOperation
	served bool // leased in the current life
}

// driftPPM bounds how far a simulated machine's clock runs from true time, in millionths.
const driftPPM = 500

// leaseEnd bounds when a lease granted at the true time t ends.
func leaseEnd(from, to int64, visibility time.Duration) (low, high int64) {
	drift := int64(visibility) / 1_000_000 * driftPPM
	return from + int64(visibility) - drift - 1, to + int64(visibility) + drift + 1
}

func (p *part) copyOf(offset int64) *copyHistory {
	c := p.copies[offset]
	if c == nil {
		c = &copyHistory{offset: offset}
		p.copies[offset] = c
		p.order = append(p.order, c)
	}
	return c
}

func (n *Node) reserveOp(p *part, v engine.Leased) {
	now := n.now()
	c := p.copyOf(v.Lease.Offset)
	c.served = true
	in := model.CopyInput{Op: model.OpReserve, Nonce: v.Lease.Nonce, Call: now, Ret: now}
	in.ExpiryLow, in.ExpiryHigh = leaseEnd(now, now, p.model.Visibility)
	c.add(0, in, model.OK)
}

func (n *Node) instantOp(p *part, offset int64, op model.CopyOp, nonce int64) {
	now := n.now()
	p.copyOf(offset).add(0, model.CopyInput{Op: op, Nonce: nonce, Call: now, Ret: now}, model.OK)
}

// crashCopies adds the end of the owner's life to the histories that it can matter for.
func (p *part) crashCopies(now int64) {
	for _, c := range p.order {
		if c.served {
			c.served = false
			c.add(0, model.CopyInput{Op: model.OpCrash, Call: now, Ret: now}, model.OK)
		}
	}
}

func (c *copyHistory) add(client int, in model.CopyInput, out model.CopyOutput) {
	if out == model.Unknown {
		in.Ret = math.MaxInt64 / 2
	}
	c.ops = append(c.ops, model.CopyOperation{CopyInput: in, Client: int32(client), Output: out})
}

// Client tells of a client's ack, extend or nack: which handle, when it was sent and answered, and the answer.
func (n *Node) Client(client int, topic string, h inflight.Handle, op model.CopyOp, call, ret int64, out model.CopyOutput) {
	p := n.withNonce(engine.Key{Topic: topic, Partition: h.Partition}, h.Nonce)
	if p == nil {
		return // a forged handle names no copy; that it was refused is checked at the event
	}
	in := model.CopyInput{Op: op, Nonce: h.Nonce, Call: call, Ret: ret}
	in.ExpiryLow, in.ExpiryHigh = leaseEnd(call, ret, p.model.Visibility)
	p.copyOf(h.Offset).add(client, in, out)
}

// AckReturned tells, from within the process, that an accepted ack returned.
func (n *Node) AckReturned(topic string, h inflight.Handle) {
	if p := n.withNonce(engine.Key{Topic: topic, Partition: h.Partition}, h.Nonce); p != nil {
		p.model.Returned(h.Offset, n.now())
	}
}

// Verdict sums up the porcupine checks of a run.
type Verdict struct {
	Checked int
	Unknown int // porcupine ran out of its budget
	Illegal error
}

// Histories checks the history of every stored copy. One in which operations overlap is checked twice: with porcupine, within a time
// budget each, and with the interval checker. The two must agree. What porcupine could not decide in time is counted, and is not
// checked. One without overlaps has one order, which is followed.
func (n *Node) Histories(budget time.Duration) (v Verdict) {
	spec := model.Copy()
	for _, p := range n.order {
		for _, c := range p.order {
			history := c.upTo(p, n.now())
			if legal, sequential := model.Sequential(history); sequential && legal {
				v.Checked++
				continue
			}
			ops := model.Ordered(model.Operations(history))
			verdict := porcupine.CheckOperationsTimeout(spec, ops, budget)
			legal, decided := model.Linearizable(ops)
			switch {
			case decided && verdict != porcupine.Unknown && legal != (verdict == porcupine.Ok):
				v.Illegal = fmt.Errorf("check: porcupine says %s and the interval checker %t of the history of %s %s/%d offset %d:\n%s",
					verdict, legal, n.name, p.key.Topic, p.key.Partition, c.offset, c.describe())
				return v
			case verdict == porcupine.Ok:
				v.Checked++
			case verdict == porcupine.Unknown && (legal || !decided):
				v.Unknown++
			default:
				v.Illegal = model.Violate("INV-06", "%s %s/%d offset %d: the history of this copy is not legal:\n%s", n.name, p.key.Topic, p.key.Partition, c.offset, c.describe())
				return v
			}
		}
	}
	return v
}

// upTo is the history as far as it can be judged: to the end for a partition that is there, and up to the deletion for one
// that is not. What was under way then was answered by then or not: whether it took effect does not matter any more.
func (c *copyHistory) upTo(p *part, now int64) []model.CopyOperation {
	if !p.gone {
		if c.offset < p.kept.low || c.offset >= p.model.HW {
			return c.ops // retention removed it, settled or not; or only a consume that held an older log ever reserved it
		}
		if _, rotten := p.rotten[c.offset]; rotten || p.garbage[c.offset] {
			return c.ops // acked, or skipped, which is no operation of a client
		}
		return c.final(now)
	}
	var ops []model.CopyOperation
	for _, op := range c.ops {
		if op.Call >= p.goneAt {
			continue
		}
		if op.Ret >= p.goneAt {
			op.Ret, op.Output = math.MaxInt64/2, model.Unknown
		}
		ops = append(ops, op)
	}
	return ops
}

// final is the history with the demand that the copy ended settled: without it a lost message would pass. It shares the memory of
// the history, to which nothing is added any more.
func (c *copyHistory) final(now int64) []model.CopyOperation {
	last := now + 1
	in := model.CopyInput{Op: model.OpFinal, Call: last, Ret: last}
	return append(c.ops, model.CopyOperation{CopyInput: in, Output: model.OK})
}

func (c *copyHistory) describe() string {
	spec := model.Copy()
	text := ""
	for _, op := range c.ops {
		text += fmt.Sprintf("  %12v … %-12v client %d  %s\n", time.Duration(op.Call), time.Duration(op.Ret), op.Client, spec.DescribeOperation(op.CopyInput, op.Output))
	}
	return text
}
