package workload

import (
	"time"

	"narad/engine"
	"narad/sim"
)

// nemesis makes life hard for one node until the traffic ends. Its first strike is a process crash, so that every
// seed has one.
func (n *node) nemesis() {
	r := n.run
	if r.plan.Crashes == 0 {
		return
	}
	gap := r.plan.Traffic / time.Duration(r.plan.Crashes+1)
	for strikes := 0; !r.stopping; strikes++ {
		r.e.Sleep(gap - r.w.Duration(0, gap-gap/10))
		if r.stopping || !r.mayStrike() {
			return
		}
		if strikes == 0 {
			n.crashServing()
			continue
		}
		n.strike()
	}
}

// crashServing kills the process once it serves.
func (n *node) crashServing() {
	for n.engine == nil && !n.run.stopping {
		n.run.e.Sleep(10 * time.Millisecond)
	}
	n.m.CrashProcess()
}

func (n *node) strike() {
	w := n.run.w
	switch w.Choose(10) {
	case 0, 1:
		n.m.CrashProcess()
	case 2, 3:
		n.m.PowerLoss()
	case 4:
		n.m.ArmCrash(sim.ProcessCrash, 1+w.Choose(300))
	case 5:
		n.m.ArmCrash(sim.PowerFailure, 1+w.Choose(300))
	case 6, 7: // rare windows would hardly ever be met by counting
		n.m.ArmCrashAt(sim.CrashKind(w.Choose(2)), points[w.Choose(len(points))], 1+w.Choose(3))
	case 8:
		d := w.Duration(0, 3*time.Second)
		n.check.Paused(n.run.e.Now().Add(d))
		n.m.Pause(d)
	case 9:
		if w.Choose(2) == 0 && n.topicsMade {
			n.stopAmongArrivals()
			return
		}
		n.stopGracefully()
	}
}

// stopAmongArrivals stops the node while consumers come, find nothing, and are looked at. Who stands in no queue at the instant of the stop
// must hear of it all the same.
func (n *node) stopAmongArrivals() {
	r := n.run
	if r.mayLinger() {
		r.w.Linger(pick(r.w, arrivalPoint, pumpsPoint, "engine: waiter popped, not served"), 60*time.Millisecond)
	}
	for range 4 {
		c := n.newConsumer(r.w.Choose(len(r.plan.Topics)))
		r.clients.Go(n.name+" latecomer", func() {
			r.e.Sleep(r.duration(0, 20*time.Millisecond))
			for _, h := range c.receive(5 * time.Second) {
				c.ack(h)
			}
		})
	}
	r.e.Sleep(r.duration(0, 40*time.Millisecond))
	n.stopGracefully()
	r.w.Linger(r.plan.Policy.Linger, r.plan.Policy.LingerFor)
}

// stopGracefully closes the engine. When it returns without error, nothing may be lost that was acked.
func (n *node) stopGracefully() (stopped bool) {
	eng, proc := n.engine, n.proc
	if eng == nil {
		return false
	}
	if n.troubled && n.run.w.Choose(2) == 0 {
		n.m.CrashProcess()
		return false
	}
	n.stopping = true
	if n.run.plan.LookupErrors {
		n.m.ClearFaults()
	}
	n.check.Closing()
	var err error
	outcome := proc.Call("close", n.run.e.Now().Add(time.Minute), func() {
		if err = eng.Close(); err == nil {
			n.engine = nil
			n.check.Stopped() // at this instant: a crash that follows finds everything on disk
		} else if n.troubled && ioError(err) { // what could not be made durable is not exact, and Close says so
			n.check.Goal("a stop was not graceful on a failing disk")
			n.m.CrashProcess()
		}
	})
	if outcome != sim.Done {
		return false
	}
	if err != nil && err != engine.ErrClosed {
		n.run.fail("INV-10", "%s: close failed on a healthy disk: %v", n.name, err)
	}
	n.run.stops++
	proc.WaitUntil(n.run.e.Now().Add(time.Minute))
	return err == nil
}
