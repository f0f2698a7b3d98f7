package workload

import (
	"errors"
	"fmt"
	"time"

	"narad/engine"
)

// produceLoop sends messages until the traffic ends, some with keys, some to an explicit partition, and tries
// again when it got no answer.
func (n *node) produceLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		r.e.Sleep(r.plan.Think - r.w.Duration(0, r.plan.Think))
		spec := r.plan.Topics[r.w.Choose(len(r.plan.Topics))]
		id, payload := r.messages.New(n.name, spec.Name, r.w.Choose(r.plan.Size))
		m := engine.Message{Topic: spec.Name, Partition: engine.AnyPartition, Payload: payload}
		switch r.w.Choose(3) {
		case 0:
			m.Key = fmt.Appendf(nil, "key%d", r.w.Choose(10))
		case 1:
			m.Partition = int32(r.w.Choose(spec.Partitions))
		}
		n.produce(id, m)
	}
}

// produce sends one message, up to three times when no answer came.
func (n *node) produce(id int, m engine.Message) {
	r := n.run
	for attempt := 0; attempt < 3 && !r.stopping; {
		var err error
		patience := 20 * time.Second
		if percent(r.w, r.plan.Habits.Impatient) {
			patience = r.w.Duration(0, 5*time.Millisecond)
		}
		r.messages.Attempted(id)
		switch n.call("produce", patience, func(eng *engine.Engine) { err = eng.Produce(m) }) {
		case unsent:
			r.messages.Unsent(id)
			r.e.Sleep(r.w.Duration(0, 200*time.Millisecond))
			continue
		case unknown:
			attempt++
			continue
		}
		switch {
		case err == nil:
			r.messages.Accepted(id)
			return
		case errors.Is(err, engine.ErrClosed):
			r.e.Sleep(r.w.Duration(0, 200*time.Millisecond))
		case errors.Is(err, engine.ErrTopicNotFound):
			r.fail("INV-02", "%s: topic %s is gone: %v", n.name, m.Topic, err)
			return
		default:
			r.fail("AVL-02", "%s: produce failed on a healthy disk: %v", n.name, err)
			return
		}
	}
}
