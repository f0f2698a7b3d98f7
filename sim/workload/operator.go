package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"narad/engine"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
)

// operator deletes, recreates, purges and alters topics under load.
type operator struct {
	node   *node
	id     int
	extras int // topics of unique names that were made
}

// topicHistories are what clients did to each topic name of a node.
type topicHistories struct {
	byName map[string]*model.TopicHistory
	names  []string
}

func (h *topicHistories) of(name string) *model.TopicHistory {
	if h.byName == nil {
		h.byName = map[string]*model.TopicHistory{}
	}
	t := h.byName[name]
	if t == nil {
		t = &model.TopicHistory{}
		h.byName[name] = t
		h.names = append(h.names, name)
	}
	return t
}

// judge checks them with porcupine, and counts those that it could not decide in time.
func (h *topicHistories) judge(node string) (unknown int, err error) {
	for _, name := range h.names {
		t := h.byName[name]
		switch porcupine.CheckOperationsTimeout(model.Topic(), t.Operations(), historyBudget) {
		case porcupine.Unknown:
			unknown++
		case porcupine.Illegal:
			return unknown, model.Violate("INV-02", "%s: the life cycle of topic %s is not legal:\n%v", node, name, t)
		}
	}
	return unknown, nil
}

// operateLoop changes topics until the traffic ends.
func (n *node) operateLoop() {
	r := n.run
	r.nextID++
	o := &operator{node: n, id: r.nextID}
	n.createTopics()
	for !r.stopping {
		r.nap(r.pause(r.plan.Churn))
		if r.stopping {
			return
		}
		topic := r.w.Choose(len(r.plan.Topics))
		spec := r.plan.Topics[topic]
		switch r.w.Choose(18) {
		case 0, 1, 2:
			o.recreate(spec)
		case 3, 4, 5, 6:
			o.purge(spec.Name)
		case 7:
			o.alter(spec.Name, o.caps(spec))
		case 8:
			more := spec.Partitions + r.w.Choose(3)
			if o.alter(spec.Name, engine.TopicPatch{Partitions: &more}) {
				o.fill(spec, int32(more-1))
			}
		case 9, 10:
			o.get(spec.Name)
		case 11:
			o.extra(spec)
		case 12, 13:
			o.purgeWhileAcking(topic)
		case 14, 15:
			o.purgeWhileOpening(topic, false)
		case 16, 17:
			o.purgeWhileOpening(topic, true)
		}
	}
}

// recreate deletes a topic and makes it again, at once or a little later.
func (o *operator) recreate(spec engine.TopicSpec) {
	r := o.node.run
	o.delete(spec.Name)
	r.e.Sleep(pick(r.w, 0, 0, r.w.Duration(0, 20*time.Millisecond), r.w.Duration(0, 2*time.Second)))
	for !o.node.createTopic(spec) {
		r.e.Sleep(50 * time.Millisecond)
	}
}

// extra makes a topic of a name that was never used, uses it, and deletes it (PUMP-13).
func (o *operator) extra(spec engine.TopicSpec) {
	r := o.node.run
	o.extras++
	spec.Name = fmt.Sprintf("extra%d", o.extras)
	if !o.node.createTopic(spec) {
		return
	}
	id, m := o.node.newMessage(spec)
	o.node.produce([]int{id}, []engine.Message{m})
	r.e.Sleep(r.w.Duration(0, 100*time.Millisecond))
	o.delete(spec.Name)
}

func (o *operator) delete(name string) bool {
	return o.node.topicOp(o.id, name, model.TopicDelete, func(eng *engine.Engine) (string, error) { return "", eng.DeleteTopic(name) })
}

func (o *operator) purge(name string) {
	o.node.topicOp(o.id, name, model.TopicPurge, func(eng *engine.Engine) (string, error) {
		t, err := eng.PurgeTopic(name)
		return t.ID, err
	})
}

// purgeWhileAcking acks messages one after the other while their topic is purged, so that drops land at every instant of an ack.
func (o *operator) purgeWhileAcking(topic int) {
	n, r := o.node, o.node.run
	c := n.newConsumer(topic)
	q := c.question(0)
	q.count = 20
	if n.call("consume", time.Minute, q.ask) != answered {
		return
	}
	if r.mayLinger() && r.w.Choose(2) == 1 { // S-19
		r.w.Linger("engine: acked, not reported", 60*time.Millisecond)
		defer r.w.Linger(r.plan.Policy.Linger, r.plan.Policy.LingerFor)
	}
	r.clients.Go(n.name+" purger", func() { o.purge(c.spec.Name) })
	for _, h := range c.accept(q) {
		c.ack(h)
	}
}

// purgeWhileOpening purges a topic again and again while consumers come to it, so that its lease tables are made while they are to be
// dropped.
func (o *operator) purgeWhileOpening(topic int, filled bool) {
	n, r := o.node, o.node.run
	for range 3 {
		if filled {
			n.backlog(r.plan.Topics[topic])
		}
		n.call("rush", time.Minute, func(eng *engine.Engine) { n.rush(eng, topic) })
		r.e.Sleep(pick(r.w, 0, r.w.Duration(0, time.Millisecond), r.w.Duration(0, 20*time.Millisecond)))
		o.purge(r.plan.Topics[topic].Name)
	}
}

func (o *operator) get(name string) {
	o.node.topicOp(o.id, name, model.TopicGet, func(eng *engine.Engine) (string, error) {
		t, err := eng.Topic(name)
		return t.ID, err
	})
}

// alter changes settings. It leaves the incarnation alone, so it is no part of the history. It reports whether the topic has
// what was asked for, or more partitions than that.
func (o *operator) alter(name string, patch engine.TopicPatch) bool {
	n := o.node
	var err error
	n.check.Altering(name, patch)
	life := n.boots
	got := n.call("alter topic", time.Minute, func(eng *engine.Engine) {
		var t engine.Topic
		if t, err = eng.AlterTopic(name, patch); err == nil && life == n.boots {
			n.check.Altered(patch, t)
		}
	})
	n.check.AlterEnded(name, got.neverSent() || got == answered && (err == nil || errors.Is(err, engine.ErrInvalid) || errors.Is(err, engine.ErrTopicNotFound)))
	if got != answered {
		return false
	}
	shrinks := patch.Partitions != nil && errors.Is(err, engine.ErrInvalid) // it had grown before
	if refusedLeaderless(err) || isUncertain(err) || n.failedChange(err) != changeWent {
		return false
	}
	if err != nil && !shrinks && !errors.Is(err, engine.ErrTopicNotFound) && !errors.Is(err, engine.ErrClosed) {
		n.run.fail("AVL-01", "%s: alter topic %s: %v", n.name, name, err)
	}
	return err == nil || shrinks
}

// caps draws new caps, one of them or both.
func (o *operator) caps(spec engine.TopicSpec) engine.TopicPatch {
	w := o.node.run.w
	inFlight, ahead := 1+w.Choose(1+spec.MaxInFlight), 1+w.Choose(1+spec.MaxAckedAhead)
	return pick(w, engine.TopicPatch{MaxInFlight: &inFlight, MaxAckedAhead: &ahead}, engine.TopicPatch{MaxInFlight: &inFlight}, engine.TopicPatch{MaxAckedAhead: &ahead})
}

// fill sends a message to the last partition of a topic that has grown. Whoever was parked before is to have it (PUMP-19).
func (o *operator) fill(spec engine.TopicSpec, partition int32) {
	id, m := o.node.newMessage(spec)
	m.Key, m.Partition = nil, partition
	o.node.produce([]int{id}, []engine.Message{m})
}

// topicOp makes a request about a topic name and writes into its history what came of it. It reports whether the answer is
// known.
func (n *node) topicOp(client int, name string, op model.TopicOp, fn func(*engine.Engine) (string, error)) bool {
	r := n.run
	names := [...]string{model.TopicCreate: "create topic", model.TopicGet: "get topic", model.TopicDelete: "delete topic", model.TopicPurge: "purge topic"}
	call, life := int64(r.w.Now()), n.boots
	var id string
	var err error
	n.check.Changing(name)
	got := n.call(names[op], time.Minute, func(eng *engine.Engine) { id, err = fn(eng) })
	failed := changeWent
	if got == answered {
		failed = n.failedChange(err)
	}
	if got == answered && (isUncertain(err) || failed == changeInDoubt) {
		got = unknown
	}
	ret := int64(r.w.Now())
	out := model.TopicOutput{ID: id}
	switch {
	case got.neverSent(), got == answered && (errors.Is(err, engine.ErrClosed) || refusedLeaderless(err) || failed == changeRefused):
		n.check.Changed(name, true)
		return false
	case got == unknown: // what it changed may come to light at the next start
		if out.Result = model.TopicUnknown; n.boots == life && n.proc.Alive() {
			ret = 0
		}
		n.check.Changed(name, false)
		n.topics.of(name).Add(client, op, out, call, ret)
		return false
	case errors.Is(err, engine.ErrTopicExists), errors.Is(err, engine.ErrTopicNotFound):
		out.Result = model.TopicRefused
	case err != nil:
		r.fail("AVL-01", "%s: %s %s: %v", n.name, names[op], name, err)
	}
	n.check.Changed(name, true)
	n.topics.of(name).Add(client, op, out, call, ret)
	return true
}

// settleTopics leaves each node with the topics of the plan and no others.
func (r *run) settleTopics() {
	for _, n := range r.nodes {
		o := &operator{node: n}
		for _, name := range n.topics.names {
			if r.isPlanned(name) {
				continue
			}
			for !o.delete(name) {
				r.e.Sleep(50 * time.Millisecond)
			}
		}
		n.createTopics()
	}
}

func (r *run) isPlanned(name string) bool {
	for _, spec := range r.plan.Topics {
		if spec.Name == name {
			return true
		}
	}
	return false
}

// residue looks at what deleted topics left on the disks, some time after the last was deleted.
func (r *run) residue() {
	if r.plan.Churn == 0 {
		return
	}
	r.e.Sleep(10 * time.Second)
	for _, n := range r.nodes {
		n.leaks()
		names, err := listTopics(n.m)
		if err == nil {
			err = n.check.Residue(names)
		}
		if err != nil {
			r.w.Fail(err)
		}
	}
}

func listTopics(m *sim.Machine) (names []string, err error) {
	dir, err := disk.FS(m.Disk().Clone()).OpenRoot("data/topics", false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.List()
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	return names, err
}
