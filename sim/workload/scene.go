package workload

import (
	"errors"
	"fmt"
	"time"

	"narad/engine"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

// A scene is a short story with a known end, played on a topic of its own when all else in a world is drained and at rest. It
// brings about what chance hardly ever does: one partition whose disk fails alone, files that somebody changed by hand, a node that is slow for
// minutes.
type scene struct {
	name       string
	partitions int
	visibility time.Duration
	play       func(s *stage)
}

var scenes = []scene{
	{"one partition cannot be opened", 3, time.Minute, blockedPartition},
	{"one partition's state is read slowly", 2, time.Minute, slowState},
	{"consumer state lies beyond the end of its log", 1, time.Minute, stateBeyondLog},
	{"one partition's disk fails", 2, time.Minute, failingDestination},
	{"many commits hang", 18, time.Minute, hungDestinations},
	{"consumer.offset was cut short", 2, time.Minute, shortOffset},
	{"a partition's directory went", 1, 10 * time.Minute, directoryGone},
	{"a partition's directory was replaced", 1, 10 * time.Minute, directoryReplaced},
	{"an evicted consumer.ahead was replaced", 3, 10 * time.Minute, fileReplaced},
	{"ticks are late for a minute", 1, time.Minute, lateTicks},
	{"the disk loses a write of a log", 1, time.Minute, lostWrite},
	{"a kill, and much later a loss of power", 1, time.Minute, killedThenPowerLoss},
	{"a log was cut while the node was stopped", 1, time.Minute, cutWhileStopped},
	{"the topic grows beside a parked consumer", 1, time.Minute, grown},
}

// sceneShare is how many worlds, in percent, end with one of the scenes.
const sceneShare = 60

// stage is what a scene is played on.
type stage struct {
	run  *run
	node *node
	spec engine.TopicSpec
}

// playScene draws whether this world ends with a scene, and which.
func (n *node) playScene() {
	r := n.run
	dice := r.w.Choose(len(scenes) * 100 / sceneShare)
	if dice == 0 || dice > len(scenes) || r.plan.Lies > 0 || r.plan.Garbage || r.plan.Flavour == string(ReplicatedProfile) {
		return
	}
	sc := scenes[dice-1]
	s := &stage{r, n, engine.TopicSpec{Name: "scene", Partitions: sc.partitions, Visibility: sc.visibility}}
	n.check.Goal("scene: " + sc.name)
	if r.w.Logging() {
		r.w.Logf("scene: %s", sc.name)
	}
	n.m.SetLatency(calm())
	for !n.createTopic(s.spec) {
		r.e.Sleep(50 * time.Millisecond)
	}
	sc.play(s)
	n.m.ClearFaults()
	n.m.SetLatency(sim.DefaultLatency())
	o := &operator{node: n}
	for !o.delete(s.spec.Name) {
		r.e.Sleep(50 * time.Millisecond)
	}
}

// calm is a disk on which nothing stalls.
func calm() sim.Latency {
	l := sim.DefaultLatency()
	l.Stalls = 0
	return l
}

// patience is how long a scene waits for what takes an instant: a task may be starved for two seconds, and again.
const patience = 20 * time.Second

func (s *stage) key(partition int) engine.Key {
	return engine.Key{Topic: s.spec.Name, Partition: int32(partition)}
}

func (s *stage) dir(partition int) string {
	return fmt.Sprintf("data/topics/%s/p%05d", s.spec.Name, partition)
}

// put produces a message to a partition.
func (s *stage) put(partition int) {
	n, r := s.node, s.run
	id, m := n.newMessage(s.spec)
	m.Key, m.Partition = nil, int32(partition)
	r.messages.Addressed(id, n.address(m))
	r.messages.Attempted(id)
	var err error
	if n.call("produce", time.Minute, func(eng *engine.Engine) { err = send(eng, []engine.Message{m}) }) != answered || err != nil {
		r.fail("AVL-02", "%s: a produce of a scene failed: %v", n.name, err)
	}
	r.messages.Accepted(id)
}

// stored waits until a partition holds n records.
func (s *stage) stored(partition, n int) {
	s.eventually("INV-02", fmt.Sprintf("partition %d holds %d records", partition, n), func() bool {
		return s.node.check.IsVisible(s.key(partition), int64(n-1))
	})
}

// eventually waits until something holds.
func (s *stage) eventually(rule, what string, holds func() bool) {
	for end := s.run.e.Now().Add(time.Minute); !holds(); {
		if s.run.e.Now() > end {
			s.run.fail(rule, "%s: in a minute it did not come that %s", s.node.name, what)
		}
		s.run.e.Sleep(50 * time.Millisecond)
	}
}

// take consumes one message. Without one it returns the error.
func (s *stage) take(partition int32, wait time.Duration) (held, error) {
	c := s.client()
	c.partition = partition
	q := c.question(wait)
	if s.node.call("consume", wait+time.Minute, q.ask) != answered {
		s.run.fail("CON-19", "%s: a consume of a scene got no answer for a minute longer than it was to wait", s.node.name)
	}
	if q.err != nil {
		return held{}, q.err
	}
	got := c.accept(q)
	if len(got) == 0 {
		return held{}, engine.ErrEmpty
	}
	return got[0], nil
}

// must consumes a message that is to be there.
func (s *stage) must(rule string, partition int) held {
	h, err := s.take(int32(partition), patience)
	if err != nil {
		s.run.fail(rule, "%s: partition %d of %s has a message, and a consume was answered %v", s.node.name, partition, s.spec.Name, err)
	}
	return h
}

func (s *stage) ack(h held) { s.client().ack(h) }

func (s *stage) client() *consumer {
	c := s.node.newConsumer(0)
	c.spec = s.spec
	return c
}

// restart stops the node gracefully, lets something be done to its files, and starts it.
func (s *stage) restart(meanwhile func()) {
	if !s.node.stopGracefully() {
		s.run.fail("INV-10", "%s did not stop gracefully within a minute", s.node.name)
	}
	if meanwhile != nil {
		meanwhile()
	}
	s.boot()
}

func (s *stage) boot() {
	s.node.boot()
	for s.node.engine == nil {
		s.run.e.Sleep(10 * time.Millisecond)
	}
}

// isOpen reports whether the log of a partition is open.
func (s *stage) isOpen(partition int) (open bool) {
	s.node.call("describe", time.Minute, func(eng *engine.Engine) {
		if v, err := eng.Describe(s.spec.Name); err == nil {
			open = v.Partitions[partition].Open
		}
	})
	return open
}

// fails lets the disk fail until the scene ends.
func (s *stage) fails(plan sim.FaultPlan) {
	s.node.troubled = true
	s.node.m.SetFaults(plan)
}

// byHand changes files behind the back of the node, durably.
func (s *stage) byHand(path string, change func(d vfs.Dir) error) {
	dir, err := disk.FS(s.node.m.Disk()).OpenRoot(path, false)
	if err == nil {
		err = errors.Join(change(dir), dir.Sync(), dir.Close())
	}
	if err != nil {
		s.run.w.Fail(fmt.Errorf("workload: %s by hand: %w", path, err))
	}
}
