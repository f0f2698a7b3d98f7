package workload

import (
	"time"

	"narad/engine"
	"narad/sim"
)

// heal ends all faults: from here on everything must go well.
func (r *run) heal() {
	r.draining = true
	r.w.Linger("", 0)
	for _, n := range r.nodes {
		n.m.Disarm()
		n.m.ClearFaults()
		n.m.SetLatency(sim.DefaultLatency())
		n.failing = false
		if n.troubled {
			n.m.CrashProcess() // an ingress log that failed stays so until a restart
		}
	}
}

// drain consumes and acks until nothing is left. It reports false after failing the world because something
// was left for too long.
func (r *run) drain() bool {
	tried, _, _, _ := r.messages.Counts()
	limit := r.drainLimit(tried)
	end := r.e.Now().Add(limit)
	for _, n := range r.nodes {
		for topic := range r.plan.Topics {
			r.clients.Go(n.name+" drainer", func() { n.drainLoop(topic) })
		}
	}
	for {
		pending := ""
		for _, n := range r.nodes {
			if ok, why := n.check.Drained(); !ok {
				pending += why + "; "
			}
		}
		if pending == "" {
			break
		}
		if r.e.Now() > end {
			r.fail("INV-02", "not everything was delivered and acked %v after the faults were healed: %s", limit, pending)
			return false
		}
		r.e.Sleep(100 * time.Millisecond)
	}
	r.drained = true
	r.clients.Wait()
	return true
}

// drainLoop is a consumer without bad habits.
func (n *node) drainLoop(topic int) {
	c := n.newConsumer(topic)
	for !n.run.drained {
		got := c.receiveOnce(2 * time.Second)
		for _, h := range got {
			c.ack(h)
		}
		if len(got) == 0 {
			n.run.e.Sleep(20 * time.Millisecond)
		}
	}
}

// receiveOnce is receive without bad habits.
func (c *consumer) receiveOnce(wait time.Duration) []held {
	q := c.question(wait)
	if c.node.call("consume", wait+time.Minute, q.ask) != answered {
		return nil
	}
	return c.accept(q)
}

// restartQuietly stops every node gracefully and starts it again: nothing may be delivered any more (REC-07).
func (r *run) restartQuietly() {
	for _, n := range r.nodes {
		n.stopped = true
		if !n.stopGracefully() {
			r.fail("INV-10", "%s did not stop gracefully within a minute", n.name)
			return
		}
		n.boot()
		for n.engine == nil {
			r.e.Sleep(10 * time.Millisecond)
		}
		for topic := range r.plan.Topics {
			n.nothingLeft(topic)
		}
	}
}

// nothingLeft takes what a topic still gives. Nothing that was acked may come; a produce that nobody waited for any more
// may have landed after the drain, and is acked now.
func (n *node) nothingLeft(topic int) {
	c := n.newConsumer(topic)
	for p := range c.spec.Partitions {
		c.partition = int32(p)
		key := engine.Key{Topic: c.spec.Name, Partition: c.partition}
		for got := c.receiveOnce(0); len(got) > 0; got = c.receiveOnce(0) {
			for _, h := range got {
				if n.check.WasAcked(key, h.handle.Offset) {
					n.run.fail("INV-10", "%s: after a graceful restart of a drained node, offset %d of %s/%d was delivered again", n.name, h.handle.Offset, key.Topic, p)
					return
				}
				c.ack(h)
			}
		}
	}
}
