package workload

import (
	"errors"
	"time"

	"narad/engine"
	"narad/inflight"
	"narad/sim/model"
)

// consumer is a client that takes messages from one topic of one node.
type consumer struct {
	node      *node
	id        int // of the client, in histories
	spec      engine.TopicSpec
	partition int32
	held      []held // collected, not acked yet
}

// held is a message in the hands of a client.
type held struct {
	message int
	handle  inflight.Handle
}

func (n *node) newConsumer(topic int) *consumer {
	r := n.run
	r.nextID++
	c := &consumer{node: n, id: r.nextID, spec: r.plan.Topics[topic], partition: engine.AnyPartition}
	return c
}

// consumeLoop takes messages until the traffic ends and treats them by the habits of the plan.
func (n *node) consumeLoop() {
	r := n.run
	n.createTopics()
	c := n.newConsumer(r.w.Choose(len(r.plan.Topics)))
	if percent(r.w, r.plan.Habits.Pinned) {
		c.partition = int32(r.w.Choose(c.spec.Partitions))
	}
	for !r.stopping {
		d := c.receive(4*time.Second - r.w.Duration(0, 4*time.Second))
		if d != nil {
			c.treat(*d)
			continue
		}
		c.ackHeld()
		r.e.Sleep(100*time.Millisecond - r.w.Duration(0, 100*time.Millisecond))
	}
	c.ackHeld()
}

// receive asks for one message. It returns nil when none came, whatever the reason.
func (c *consumer) receive(wait time.Duration) *held {
	n, r := c.node, c.node.run
	if r.w.Choose(4) == 3 {
		wait = 0
	}
	req := &engine.ConsumeRequest{Topic: c.spec.Name, Partition: c.partition, Wait: wait}
	patience := wait + 20*time.Second
	leaves := percent(r.w, r.plan.Habits.Cancel)
	if leaves {
		patience = r.w.Duration(0, wait)
	}
	var d *engine.Delivery
	var err error
	got := n.call("consume", patience, func(eng *engine.Engine) {
		found, ferr := eng.Consume(req)
		d, err = found, ferr
	})
	if got == unknown && leaves {
		n.call("cancel", time.Second, func(*engine.Engine) { req.Cancel() })
	}
	if got != answered {
		return nil
	}
	return c.accept(d, err)
}

func (c *consumer) accept(d *engine.Delivery, err error) *held {
	r := c.node.run
	switch {
	case err == nil:
		id, verr := r.messages.Delivered(c.node.name, d)
		if verr != nil {
			r.w.Fail(verr)
			return nil
		}
		return &held{id, d.Handle}
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrCancelled):
		return nil
	}
	r.fail("INV-02", "%s: consume from %s failed on a healthy disk: %v", c.node.name, c.spec.Name, err)
	return nil
}

// treat decides what becomes of a message.
func (c *consumer) treat(h held) {
	r := c.node.run
	habit := r.plan.Habits
	dice := r.w.Choose(100)
	under := func(share int) bool {
		dice -= share
		return dice < 0
	}
	switch {
	case under(habit.Hold):
		c.held = append(c.held, h)
		if len(c.held) > 1+r.w.Choose(12) {
			c.ackHeld()
		}
	case under(habit.Late):
		r.e.Sleep(c.spec.Visibility + r.w.Duration(0, 2*time.Second))
		c.ack(h)
	case under(habit.Forget):
	case under(habit.Nack):
		c.settle(h, model.OpNack, (*engine.Engine).Nack)
	case under(habit.Extend):
		r.e.Sleep(r.w.Duration(0, c.spec.Visibility))
		c.settle(h, model.OpExtend, (*engine.Engine).Extend)
		r.e.Sleep(r.w.Duration(0, c.spec.Visibility))
		c.ack(h)
	case under(habit.Double):
		c.ack(h)
		c.ack(h)
	case under(habit.Forge):
		forged := h
		forged.handle.Nonce = 1 + int64(r.w.Choose(1<<30))
		c.settle(forged, model.OpAck, (*engine.Engine).Ack)
		c.ack(h)
	default:
		c.ack(h)
	}
}

// ackHeld acks what was collected, in any order.
func (c *consumer) ackHeld() {
	for len(c.held) > 0 {
		i := c.node.run.w.Choose(len(c.held))
		h := c.held[i]
		c.held = append(c.held[:i], c.held[i+1:]...)
		c.ack(h)
	}
}

func (c *consumer) ack(h held) { c.settle(h, model.OpAck, (*engine.Engine).Ack) }

// settle acks, extends or nacks, and writes into the history what came of it.
func (c *consumer) settle(h held, op model.CopyOp, do func(*engine.Engine, string, inflight.Handle) error) {
	n, r := c.node, c.node.run
	call := int64(r.w.Now())
	var err error
	life := n.boots
	got := n.call("settle", 20*time.Second, func(eng *engine.Engine) {
		err = do(eng, c.spec.Name, h.handle)
		if err == nil && op == model.OpAck && life == n.boots {
			n.check.AckReturned(c.spec.Name, h.handle)
		}
	})
	ret := int64(r.w.Now())
	var out model.CopyOutput
	switch {
	case got == unsent, got == answered && errors.Is(err, engine.ErrClosed):
		return // certainly did not happen
	case got == unknown:
		out = model.Unknown
	case errors.Is(err, engine.ErrLeaseGone):
		out = model.Gone
	case err != nil:
		r.fail("API-04", "%s: settle answered %v", n.name, err)
		return
	}
	n.check.Client(c.id, c.spec.Name, h.handle, op, call, ret, out)
	if op == model.OpAck && out != model.Gone {
		r.messages.Acked(h.message, out == model.OK)
	}
}
