package workload

import (
	"errors"
	"fmt"
	"time"

	"narad/engine"
	"narad/sim/check"
)

// produceLoop sends messages until the traffic ends, one by one or in batches, some with keys, some to an explicit
// partition, and tries again when it got no answer.
func (n *node) produceLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		r.e.Sleep(r.pause(r.plan.Think))
		spec := r.plan.Topics[r.w.Choose(len(r.plan.Topics))]
		count := 1
		if percent(r.w, r.plan.Habits.Batch) {
			count = r.batchOf(2 + r.w.Choose(15))
		}
		ids, messages := make([]int, count), make([]engine.Message, count)
		for i := range count {
			ids[i], messages[i] = n.newMessage(spec)
		}
		n.produce(ids, messages)
	}
}

func (n *node) newMessage(spec engine.TopicSpec) (id int, m engine.Message) {
	r := n.run
	id, payload := r.messages.New(n.name, spec.Name, r.w.Choose(r.plan.Size))
	m = engine.Message{Topic: spec.Name, Partition: engine.AnyPartition, Payload: payload}
	switch r.w.Choose(3) {
	case 0:
		m.Key = fmt.Appendf(nil, "key%d", r.w.Choose(10))
	case 1:
		m.Partition = int32(r.w.Choose(spec.Partitions))
	}
	return id, m
}

// produce sends messages of one topic, up to three times when no answer came.
func (n *node) produce(ids []int, messages []engine.Message) {
	r := n.run
	for attempt := 0; attempt < 3 && !r.stopping; {
		var err error
		var life int
		patience := 20 * time.Second
		if percent(r.w, r.plan.Habits.Impatient) {
			patience = r.duration(0, 5*time.Millisecond)
		}
		for i, id := range ids {
			r.messages.Addressed(id, n.address(messages[i]))
			r.messages.Attempted(id)
		}
		asked := r.e.Now()
		r.watch.produces(r, ids)
		switch n.call("produce", patience, func(eng *engine.Engine) {
			life = n.check.Life()
			if err = send(eng, messages); err == nil {
				n.check.AcceptedAs(messages[0].Topic, ids)
			}
		}) {
		case unsent:
			for _, id := range ids {
				r.messages.Unsent(id)
			}
			r.e.Sleep(r.pause(200 * time.Millisecond))
			continue
		case omitted:
			for _, id := range ids {
				r.messages.Unsent(id)
			}
			return
		case unknown:
			attempt++
			continue
		}
		switch {
		case err == nil:
			for _, id := range ids { // WAL-13: one answer vouches for all
				r.messages.Accepted(id)
			}
			return
		case errors.Is(err, engine.ErrClosed):
			r.e.Sleep(r.pause(200 * time.Millisecond))
		case errors.Is(err, engine.ErrTopicNotFound) && r.plan.Churn > 0:
			n.notFound(messages[0].Topic, asked)
			for _, id := range ids {
				r.messages.Unsent(id)
			}
			attempt++
			r.e.Sleep(r.pause(50 * time.Millisecond))
		case errors.Is(err, engine.ErrTopicNotFound):
			r.fail("INV-02", "%s: topic %s is gone: %v", n.name, messages[0].Topic, err)
			return
		case errors.Is(err, engine.ErrProduceFailed) && n.check.LatchedIn(life): // ambiguous (WAL-09, WAL-11)
			attempt++
			r.e.Sleep(r.pause(200 * time.Millisecond))
		default:
			r.fail("AVL-02", "%s: produce failed on a healthy disk: %v", n.name, err)
			return
		}
	}
}

// grownMost is how many partitions an operator adds to a topic at most.
const grownMost = 2

// address is where a message may turn up.
func (n *node) address(m engine.Message) check.Address {
	a := check.Address{Key: m.Key, Partition: m.Partition}
	for _, spec := range n.run.plan.Topics {
		if spec.Name == m.Topic {
			a.Fewest, a.Most = spec.Partitions, spec.Partitions
		}
	}
	if a.Most > 0 && n.run.plan.Churn > 0 {
		a.Most += grownMost
	}
	return a
}

func send(eng *engine.Engine, messages []engine.Message) error {
	if len(messages) == 1 {
		return eng.Produce(messages[0])
	}
	return eng.ProduceBatch(messages[0].Topic, messages)
}
