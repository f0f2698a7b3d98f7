package workload

import (
	"errors"
	"slices"
	"time"

	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/sim"
	"narad/sim/check"
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
		got := c.receive(r.pause(r.plan.Wait))
		for _, h := range got {
			c.treat(h)
		}
		if len(got) > 0 {
			continue
		}
		c.ackHeld()
		if percent(r.w, r.plan.Habits.Replay) {
			c.replay()
		}
		r.nap(r.pause(r.plan.Pause))
	}
	c.ackHeld()
}

// receive asks for one message, or for a batch. It returns nothing when none came, whatever the reason.
func (c *consumer) receive(wait time.Duration) []held {
	n, r := c.node, c.node.run
	if r.w.Choose(4) == 0 {
		wait = 0
	}
	q := c.question(wait)
	if percent(r.w, r.plan.Habits.Batch) {
		q.count = r.batchOf(1 + r.w.Choose(20))
		if r.w.Choose(3) == 0 {
			q.limit(1 + r.w.Choose(10))
		}
	}
	patience := wait + 20*time.Second
	leaves := percent(r.w, r.plan.Habits.Cancel)
	if leaves {
		patience = r.duration(0, wait)
	}
	l := &left{proc: n.proc}
	got := n.call("consume", patience, func(eng *engine.Engine) {
		q.ask(eng)
		l.returned = true
	})
	if got == unknown && leaves && n.call("cancel", time.Second, func(*engine.Engine) { q.req.Cancel() }) == answered {
		n.left = append(n.left, l)
	}
	if got != answered {
		return nil
	}
	return c.accept(q)
}

// question is a consume and its answer.
type question struct {
	asked   env.Instant // true time when it was sent
	req     engine.ConsumeRequest
	count   int // 0: not a batch
	fits    int // messages that the answer has room for, with a limit
	answers []*engine.Delivery
	err     error
}

// question makes a consume that is about to be sent.
func (c *consumer) question(wait time.Duration) *question {
	return &question{
		asked: c.node.run.e.Now(), req: engine.ConsumeRequest{Topic: c.spec.Name, Partition: c.partition, Wait: wait},
	}
}

// limit lets an answer have room for n messages only.
func (q *question) limit(n int) {
	q.fits = n
	asked := 0
	q.req.Fit = func(*engine.Delivery) bool {
		asked++
		return asked <= n
	}
}

func (q *question) ask(eng *engine.Engine) {
	if q.count > 0 {
		q.answers, q.err = eng.ConsumeBatch(&q.req, q.count)
		return
	}
	d, err := eng.Consume(&q.req)
	if q.err = err; err == nil {
		q.answers = []*engine.Delivery{d}
	}
}

func (c *consumer) accept(q *question) (got []held) {
	r := c.node.run
	if q.err != nil {
		if errors.Is(q.err, engine.ErrEmpty) {
			if err := c.node.check.Empty(c.spec.Name, c.partition, q.asked); err != nil {
				r.w.Fail(err)
			}
			c.judgeWait(q)
		}
		c.refused(q.err, q.asked)
		return nil
	}
	if q.count > 0 {
		if err := check.Batch(q.answers, q.count, q.fits); err != nil {
			r.w.Fail(err)
			return nil
		}
	}
	for _, d := range q.answers {
		id, err := r.messages.Delivered(c.node.name, d)
		if err != nil {
			r.w.Fail(err)
			return nil
		}
		if err = c.node.check.Belongs(id, d); err == nil {
			err = c.node.check.Stamped(id, d)
		}
		if err != nil {
			r.w.Fail(err)
			return nil
		}
		got = append(got, held{id, d.Handle})
	}
	if n := c.node; c.partition == engine.AnyPartition && n.engine != nil && !n.troubled && r.plan.ReadErrors == 0 && !r.plan.LookupErrors {
		if err := n.check.Served(c.spec.Name, q.answers[0].Partition); err != nil {
			r.w.Fail(err)
			return nil
		}
	}
	return got
}

// judgeWait judges when the answer "nothing there" came.
func (c *consumer) judgeWait(q *question) {
	n, r := c.node, c.node.run
	prompt := !n.troubled && r.plan.Latency.Stalls <= sim.DefaultLatency().Stalls && r.plan.ReadErrors == 0
	if err := n.check.Waited(q.asked, min(q.req.Wait, engine.MaxWait), prompt); err != nil {
		r.w.Fail(err)
	}
}

// refused judges the error of a consume.
func (c *consumer) refused(err error, asked env.Instant) {
	switch {
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrCancelled):
	case errors.Is(err, engine.ErrTopicNotFound) && c.node.run.plan.Churn > 0:
		c.node.notFound(c.spec.Name, asked)
	case errors.Is(err, engine.ErrLeaseGone), errors.Is(err, engine.ErrOffsetGone):
		c.node.run.fail("INV-29", "%s: consume from %s was answered 410, the consumer holds no handle: %v", c.node.name, c.spec.Name, err)
	case c.node.run.plan.ReadErrors > 0: // the disk answers so
	case c.node.conceded(err):
	case (c.node.run.plan.FaultGap > 0 || c.node.run.plan.LookupErrors) && (ioError(err) || c.node.troubled && errors.Is(err, engine.ErrNotPlaced)):
	default:
		c.node.run.fail("INV-02", "%s: consume from %s failed on a healthy disk: %v", c.node.name, c.spec.Name, err)
	}
}

// replay reads a stored message again, settled or not (CON-09).
func (c *consumer) replay() {
	r := c.node.run
	c.replayOf(int32(r.w.Choose(c.spec.Partitions)), int64(r.w.Choose(200)))
}

// replayAtTheEnds reads near the oldest message that is left, or the newest.
func (c *consumer) replayAtTheEnds() {
	n, r := c.node, c.node.run
	partition := int32(r.w.Choose(c.spec.Partitions))
	f := n.check.Floor(c.spec.Name, partition)
	from := pick(r.w, f.Low(), f.Low(), f.HighWatermark())
	c.replayOf(partition, max(0, from+2-int64(r.w.Choose(5))))
}

func (c *consumer) replayOf(partition int32, offset int64) {
	n, r := c.node, c.node.run
	var d *engine.Delivery
	var err error
	before, asked := n.check.Floor(c.spec.Name, partition), r.e.Now()
	if n.call("replay", 20*time.Second, func(eng *engine.Engine) { d, err = eng.Replay(c.spec.Name, partition, offset) }) != answered {
		return
	}
	switch {
	case err == nil:
		id, verr := r.messages.Replayed(n.name, d)
		if verr == nil {
			verr = n.check.Replayed(before, offset, id)
		}
		if verr != nil {
			r.w.Fail(verr)
		}
	case errors.Is(err, engine.ErrEmpty):
		if verr := n.check.ReplayFoundNothing(before, offset); verr != nil {
			r.w.Fail(verr)
		}
	case errors.Is(err, engine.ErrOffsetGone) && (offset < n.check.Low(c.spec.Name, partition) || n.check.IsRotten(engine.Key{Topic: c.spec.Name, Partition: partition}, offset)):
	default:
		c.refused(err, asked)
	}
}

// notFound judges the answer that there is no such topic.
func (n *node) notFound(topic string, asked env.Instant) {
	if err := n.check.NotFound(topic, asked); err != nil {
		n.run.w.Fail(err)
	}
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
		r.e.Sleep(c.spec.Visibility + r.duration(0, 2*time.Second))
		c.ack(h)
	case under(habit.Forget):
	case under(habit.Nack):
		c.settle(h, model.OpNack, (*engine.Engine).Nack)
	case under(habit.Extend):
		r.e.Sleep(r.duration(0, c.spec.Visibility))
		c.settle(h, model.OpExtend, (*engine.Engine).Extend)
		r.e.Sleep(r.duration(0, c.spec.Visibility))
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

// ackHeld acks what was collected, in any order, one by one or in one go.
func (c *consumer) ackHeld() {
	r := c.node.run
	for i := len(c.held) - 1; i > 0; i-- {
		j := r.w.Choose(i + 1)
		c.held[i], c.held[j] = c.held[j], c.held[i]
	}
	hs := c.held
	c.held = nil
	if len(hs) > 1 && percent(r.w, r.plan.Habits.Batch) {
		switch r.w.Choose(8) {
		case 7:
			c.settleBatch(hs, model.OpNack, engine.OpNack)
			return
		case 6:
			c.settleBatch(hs, model.OpExtend, engine.OpExtend)
			r.e.Sleep(r.duration(0, c.spec.Visibility))
		}
		c.settleBatch(hs, model.OpAck, engine.OpAck)
		return
	}
	for _, h := range hs {
		c.ack(h)
	}
}

func (c *consumer) ack(h held) { c.settle(h, model.OpAck, (*engine.Engine).Ack) }

// settle acks, extends or nacks, and writes into the history what came of it.
func (c *consumer) settle(h held, op model.CopyOp, do func(*engine.Engine, string, inflight.Handle) error) {
	c.settleAll([]held{h}, op, func(eng *engine.Engine, topic string, handles []inflight.Handle) []error {
		return []error{do(eng, topic, handles[0])}
	})
}

// settleBatch acks, extends or nacks many handles with one call.
func (c *consumer) settleBatch(hs []held, op model.CopyOp, do engine.SettleOp) {
	c.settleAll(hs, op, func(eng *engine.Engine, topic string, handles []inflight.Handle) []error {
		return eng.AckBatch(topic, handles, do)
	})
}

func (c *consumer) settleAll(hs []held, op model.CopyOp, do func(*engine.Engine, string, []inflight.Handle) []error) {
	n, r := c.node, c.node.run
	call := int64(r.w.Now())
	handles := make([]inflight.Handle, len(hs))
	for i, h := range hs {
		handles[i] = h.handle
	}
	var errs []error
	life := n.boots
	got := n.call("settle", 20*time.Second, func(eng *engine.Engine) {
		errs = do(eng, c.spec.Name, handles)
		for i, err := range errs {
			if err == nil && op == model.OpAck && life == n.boots {
				n.check.AckReturned(c.spec.Name, handles[i])
			}
		}
	})
	ret := int64(r.w.Now())
	for i, h := range hs {
		var err error
		if got == answered {
			err = errs[i]
		}
		c.settled(h, op, got, err, call, ret)
	}
}

// settled writes the outcome of one handle into the history.
func (c *consumer) settled(h held, op model.CopyOp, got answer, err error, call, ret int64) {
	n, r := c.node, c.node.run
	var out model.CopyOutput
	switch {
	case got.neverSent(), got == answered && errors.Is(err, engine.ErrClosed):
		return // certainly did not happen
	case got == unknown:
		out = model.Unknown
	case errors.Is(err, engine.ErrTopicNotFound) && r.plan.Churn > 0:
		n.notFound(c.spec.Name, env.Instant(call))
		out = model.Gone
	case errors.Is(err, engine.ErrLeaseGone):
		out = model.Gone
	case err != nil && n.troubled && ioError(err): // its partition could not be opened
		out = model.Unknown
	case err != nil:
		r.fail("API-04", "%s: settle answered %v", n.name, err)
		return
	}
	n.check.Client(c.id, c.spec.Name, h.handle, op, call, ret, out)
	if op == model.OpAck && out != model.Gone {
		r.messages.Acked(h.message, out == model.OK)
	}
}

// ackHere is an ack from within the process that has not returned.
type ackHere struct {
	consumer *consumer
	held     held
	call     int64
}

// settleHere acks from within the process. When that dies first, nobody is told what became of it.
func (c *consumer) settleHere(eng *engine.Engine, h held) {
	n, call := c.node, int64(c.node.run.w.Now())
	a := &ackHere{c, h, call}
	n.here = append(n.here, a)
	err := eng.Ack(c.spec.Name, h.handle)
	at := slices.Index(n.here, a)
	if at < 0 {
		return // the process has died
	}
	n.here = slices.Delete(n.here, at, at+1)
	if err == nil {
		c.node.check.AckReturned(c.spec.Name, h.handle)
	}
	c.settled(h, model.OpAck, answered, err, call, int64(c.node.run.w.Now()))
}

// endHere ends the acks from within a process that has died.
func (n *node) endHere() {
	for _, a := range n.here {
		a.consumer.settled(a.held, model.OpAck, unknown, nil, a.call, int64(n.run.w.Now()))
	}
	n.here = nil
}
