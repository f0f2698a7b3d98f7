package workload

import (
	"fmt"
	"time"

	"narad/engine"
	"narad/sim"
)

// shortRetention: hours of sparse traffic under a retention of one hour, consumers that stay away for so long that they fall
// behind, and in some worlds a wall clock that jumps.
func shortRetention(w *sim.World, p *plan) {
	p.Tick = 100 * time.Millisecond // hours of shorter ticks would take long
	p.Retention = time.Hour
	p.Traffic = 3*time.Hour + w.Duration(0, 150*time.Minute)
	p.Producers = 1 + w.Choose(2)
	p.Think = pick(w, time.Minute, 4*time.Minute, 15*time.Minute)
	p.Consumers = 1 + w.Choose(3)
	p.Pause = pick(w, 20*time.Minute, time.Hour, 150*time.Minute)
	p.Wait = pick(w, 4*time.Second, 30*time.Second)
	p.Crashes = 1 + w.Choose(5)
	p.Segment = pick[int64](w, 64<<20, 64<<20, 1<<14, 1<<12)
	p.Size = pick(w, 50, 3000)
	p.IdleAfter = pick(w, 0, 10*time.Second, 10*time.Minute)
	p.WallJumps = w.Choose(3) == 0
	p.Habits.Replay = 20
	p.Habits.Late = 0
	for i := range p.Topics {
		p.Topics[i].RetentionMs = time.Hour.Milliseconds()
		p.Topics[i].Visibility = pick(w, 5*time.Second, 2*time.Minute, 80*time.Minute)
	}
}

// retentionGap: hours that are quiet but for a few episodes, in which several consumers come at once to a partition that
// retention has cut, or to one whose topic is purged under them.
func retentionGap(w *sim.World, p *plan) {
	p.Retention = time.Hour
	p.Gaps = true
	p.Traffic = 3*time.Hour + w.Duration(0, 40*time.Minute)
	p.Producers, p.Consumers = 1, 1
	p.Think = pick(w, time.Minute, 4*time.Minute)
	p.Pause = pick(w, 20*time.Minute, 2*time.Hour, 2*time.Hour)
	p.Wait = time.Second
	p.Crashes = 1 + w.Choose(2)
	p.Segment = pick[int64](w, 1<<12, 1<<14, 64<<20)
	p.Size = 300
	p.IdleAfter = pick(w, 0, 10*time.Second, 10*time.Minute)
	p.Churn = 8 * time.Hour // the episodes purge
	for len(p.Topics) < 6 {
		p.Topics = append(p.Topics, p.Topics[0])
		p.Topics[len(p.Topics)-1].Name = fmt.Sprintf("topic%d", len(p.Topics)-1)
	}
	p.Habits.Replay, p.Habits.Late = 20, 0
	for i := range p.Topics {
		p.Topics[i].RetentionMs = time.Hour.Milliseconds()
		p.Topics[i].Partitions = 1 + w.Choose(2)
	}
	p.Policy.Linger = pick(w, "engine: log resolved, nothing reserved", "engine: reserved, not read")
	p.Policy.LingerFor = pick(w, 60*time.Millisecond, 400*time.Millisecond)
}

// gapLoop brings about the episodes: the backlog of an hour is gone, and what is left of it is being fetched by several when the
// topic is purged, or a crash comes, or nothing does.
func (n *node) gapLoop() {
	r := n.run
	o := &operator{node: n}
	n.createTopics()
	r.nap(2 * r.plan.Retention) // by now something is gone of every backlog
	for !r.stopping {
		r.nap(r.pause(12 * time.Minute))
		if r.stopping {
			return
		}
		topic := r.w.Choose(len(r.plan.Topics))
		spec := r.plan.Topics[topic]
		n.backlog(spec)
		if r.w.Choose(3) > 0 {
			n.call("rush", time.Minute, func(eng *engine.Engine) { n.rush(eng, topic) })
		}
		if r.w.Choose(4) > 0 {
			r.clients.Go(n.name+" purger", func() { o.purge(spec.Name) })
			r.e.Sleep(pick(r.w, 0, r.duration(0, 5*time.Millisecond), r.duration(0, 60*time.Millisecond)))
		}
		for range 6 { // whoever comes now finds the successor
			r.e.Sleep(r.duration(0, 60*time.Millisecond))
			n.call("rush", time.Minute, func(eng *engine.Engine) { n.rush(eng, topic) })
		}
	}
}

// backlog produces one message for each partition of a topic.
func (n *node) backlog(spec engine.TopicSpec) {
	var ids []int
	var messages []engine.Message
	for i := range spec.Partitions {
		id, m := n.newMessage(spec)
		m.Key, m.Partition = nil, int32(i)
		ids, messages = append(ids, id), append(messages, m)
	}
	n.produce(ids, messages)
	n.run.e.Sleep(100 * time.Millisecond)
}

// rushLoop lets several consumers come at the same instant, so that they meet at a retention gap.
func (n *node) rushLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		r.nap(r.pause(r.plan.Retention * 4 / 3))
		n.call("rush", time.Minute, func(eng *engine.Engine) { n.rush(eng, r.w.Choose(len(r.plan.Topics))) })
	}
}

func (n *node) rush(eng *engine.Engine, topic int) {
	r := n.run
	c := n.newConsumer(topic)
	c.partition = int32(r.w.Choose(c.spec.Partitions))
	for range 2 + r.w.Choose(4) {
		n.proc.Env().Go("rush", func() {
			q := c.question(0)
			q.ask(eng)
			for _, h := range c.accept(q) {
				c.settleHere(eng, h)
			}
		})
	}
}

// clockLoop moves the wall clock of the node.
func (n *node) clockLoop() {
	r := n.run
	for !r.stopping {
		r.nap(r.pause(90 * time.Minute))
		if r.stopping {
			return
		}
		by := pick(r.w, time.Hour, -time.Hour, 5*time.Minute, -5*time.Minute, 20*time.Second)
		n.check.WallJumped(by)
		n.m.JumpWall(by)
	}
}

// watchAges looks, now and then, whether anything is there for too long (INV-29).
func (n *node) watchAges() {
	for !n.run.stopping {
		n.run.e.Sleep(2 * time.Minute)
		n.check.Kept()
	}
}

// watchIdle looks, now and then, whether anything is open that nobody has used for a while (INV-32).
func (n *node) watchIdle() {
	for !n.run.stopping {
		n.run.e.Sleep(20 * time.Second)
		if n.engine != nil && n.calls == 0 && !n.troubled {
			n.check.Idle(n.calledAt, n.run.plan.IdleAfter)
		}
	}
}

// readLoop replays messages around the places where logs begin and end.
func (n *node) readLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		r.nap(r.pause(20 * time.Minute))
		if !r.stopping {
			n.newConsumer(r.w.Choose(len(r.plan.Topics))).replayAtTheEnds()
		}
	}
}

// tuneLoop alters, in some worlds, the retention of a topic once or twice.
func (n *node) tuneLoop() {
	r := n.run
	if r.w.Choose(2) == 0 {
		return
	}
	n.createTopics()
	o := &operator{node: n}
	for range 2 {
		r.nap(r.pause(r.plan.Retention * 3 / 2))
		if r.stopping {
			return
		}
		ms := pick(r.w, 2*r.plan.Retention, 2*r.plan.Retention, r.plan.Retention).Milliseconds()
		o.alter(r.plan.Topics[r.w.Choose(len(r.plan.Topics))].Name, engine.TopicPatch{RetentionMs: &ms})
	}
}

// every stretches the pauses of those who look now and then in a world of hours.
func (p *plan) every(d time.Duration) time.Duration {
	if p.Retention >= time.Hour {
		return 300 * d
	}
	return d
}

// nap sleeps, at most until the traffic ends.
func (r *run) nap(d time.Duration) {
	for end := r.e.Now().Add(d); r.e.Now() < end && !r.stopping; {
		r.e.Sleep(min(end.Sub(r.e.Now()), time.Minute))
	}
}

// drainLimit bounds the drain of so many messages, all of which a crash may have brought back. Leases last longer in a world of hours.
func (r *run) drainLimit(messages int) time.Duration {
	return drainLimit + 2*r.plan.Retention + time.Duration(messages)*drainedIn
}
