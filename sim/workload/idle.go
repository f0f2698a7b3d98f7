package workload

import "time"

// returnLoop comes to each partition just when it is being closed because nobody used it, takes what is there and acks it.
func (n *node) returnLoop() {
	r := n.run
	n.createTopics()
	for seen := 0; !r.stopping; {
		r.e.Sleep(5 * time.Millisecond)
		if n.check.Idled == seen {
			continue
		}
		seen = n.check.Idled
		key := n.check.LastIdled()
		for topic, spec := range r.plan.Topics {
			if spec.Name != key.Topic {
				continue
			}
			c := n.newConsumer(topic)
			c.partition = key.Partition
			if c.partition < int32(spec.Partitions) { // one that was added may be gone with its incarnation
				for _, h := range c.receive(0) {
					c.ack(h)
				}
			}
		}
	}
}
