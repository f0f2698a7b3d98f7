package check

import (
	"maps"
	"slices"
	"syscall"
	"time"

	"narad/engine"
	"narad/env"
	"narad/sim/model"
)

// incKey names a partition of one incarnation.
type incKey struct {
	engine.Key
	incarnation string
}

// topicShadow is what is known of one incarnation of a topic, across lives.
type topicShadow struct {
	key    topicKey
	born   int64 // true time, when it is known; otherwise -1
	gone   bool  // deleted or purged, durably
	goneAt int64
	aside  bool // its directory was set aside
	life   int  // in which it was announced last

	topic    engine.Topic // its settings, as far as was told
	doubtful bool         // an alteration of which nothing was told may show at the next start
}

// lifecycle follows which incarnations there are (INV-01, INV-25, INV-26).
type lifecycle struct {
	all   map[incKey]*part
	next  map[engine.Key]*part // successors of partitions that were not dropped yet
	known map[topicKey]*topicShadow
	order []*topicShadow
	open  map[string]int  // changes of a name that operators sent and that have not ended
	doubt map[string]bool // one ended in this life, and what came of it may show at the next start

	altering map[string]*alteration // by name
	absent   map[string]*absence    // by name
	failed   map[engine.Key]failure // commits that failed and were not stored since
	messes   map[string]int64       // true time when a directory could not be removed last, by name
	tidiedAt int64                  // true time when the task that removes them was last told of

	recordOf  map[uint64]topicKey // what accepted records of the ingress log are for
	discarded map[uint64]bool
}

func newLifecycle() lifecycle {
	return lifecycle{
		all: map[incKey]*part{}, next: map[engine.Key]*part{}, known: map[topicKey]*topicShadow{}, open: map[string]int{}, doubt: map[string]bool{},
		altering: map[string]*alteration{}, absent: map[string]*absence{}, messes: map[string]int64{}, failed: map[engine.Key]failure{},
		recordOf: map[uint64]topicKey{}, discarded: map[uint64]bool{},
	}
}

// Topic tells of a topic before its first event, or of more partitions.
func (n *Node) Topic(t engine.Topic) { n.topic(t, -1) }

func (n *Node) topic(t engine.Topic, born int64) *topicShadow {
	c := &n.cycle
	key := topicKey{t.Name, t.ID}
	n.absence(t.Name).end(n.now())
	s := c.known[key]
	if s == nil {
		s = &topicShadow{key: key, born: born, topic: t}
		c.known[key] = s
		c.order = append(c.order, s)
	}
	s.life = n.life
	for i := range t.Partitions {
		if at := (engine.Key{Topic: t.Name, Partition: i}); c.all[incKey{at, t.ID}] == nil {
			n.addPart(newPart(at, t))
		}
	}
	return s
}

// addPart makes a partition the one that its key means, once its predecessor was dropped.
func (n *Node) addPart(p *part) {
	n.cycle.all[incKey{p.key, p.topic.ID}] = p
	n.order = append(n.order, p)
	old := n.parts[p.key]
	p.succeeds = old != nil
	if old != nil && !old.dropped {
		n.cycle.next[p.key] = p
		return
	}
	n.parts[p.key] = p
}

// Changing tells that an operator sent a change of a topic name, perhaps to a process that is yet to start.
func (n *Node) Changing(name string) { n.cycle.open[name]++ }

// Changed is told after [Node.Changing]. When it is not known what came of the change, the next start may show it.
func (n *Node) Changed(name string, known bool) {
	n.cycle.open[name]--
	if !known {
		n.cycle.doubt[name] = true
	}
}

// changing reports whether a topic of the name may come or go.
func (n *Node) changing(name string) bool { return n.cycle.open[name] > 0 || n.cycle.doubt[name] }

// seeTopic follows the life cycle of topics. It reports false for other events.
func (n *Node) seeTopic(v engine.Event) bool {
	switch v := v.(type) {
	case engine.TopicCreated:
		for _, s := range n.cycle.order {
			if s.key.name == v.Topic.Name && s.gone {
				n.Goal("S-45") // deleted and created again under load
				break
			}
		}
		n.topic(v.Topic, n.now())
	case engine.TopicOpened:
		n.topicOpened(v.Topic)
	case engine.TopicAltered:
		n.altered(v.Topic)
	case engine.TopicDeleted:
		n.forgive(v.Name)
		n.topicGone(topicKey{v.Name, v.Incarnation})
		n.absence(v.Name).here = false
	case engine.TopicPurged:
		n.Goal("purged under load")
		n.forgive(v.Topic.Name)
		n.purged(topicKey{v.Topic.Name, v.Old}, v.Topic)
		n.topicGone(topicKey{v.Topic.Name, v.Old})
		n.topic(v.Topic, n.now())
	case engine.SetAside:
		for _, s := range n.cycle.order {
			s.aside = s.aside || s.gone && s.key.name == v.Name
		}
	case engine.RetireFailed:
		if n.excused(v.Err) {
			n.Goal("the directory of a topic that is gone could not be set aside")
			break
		}
		n.fail(model.Violate("INV-25", "the directory of %s %s could not be set aside on a healthy disk: %v", v.Name, v.Incarnation, v.Err))
	case engine.TidyFailed:
		n.untidy(v)
		if n.excused(v.Err) {
			break
		}
		n.fail(model.Violate("INV-32", "directory %s could not be removed on a healthy disk: %v", v.Name, v.Err))
	case engine.ShardDropped:
		n.shardDropped(v)
	case engine.LimitsSet:
		n.limitsSet(v)
	case engine.OpenRefused:
		n.Goal("S-20 drop first") // a creation of a shard came after the drop that it raced
	case engine.ReportedLate:
		n.Goal("S-19") // a drop landed between an ack and its report
	case engine.RecordDiscarded:
		n.recordDiscarded(v.Seq)
	case engine.StaleRemoved, engine.DoubtRemains:
		n.untidy(v)
	default:
		return false
	}
	return true
}

func (n *Node) topicOpened(t engine.Topic) {
	if s := n.cycle.known[topicKey{t.Name, t.ID}]; s != nil && s.gone {
		n.fail(model.Violate("INV-25", "topic %s, incarnation %s, was deleted durably and is there again", t.Name, t.ID))
	}
	for _, s := range n.cycle.order { // a purge that a crash cut short behind its commit point
		if s.key.name == t.Name && s.key.incarnation != t.ID && !s.gone {
			n.vanished(s)
		}
	}
	n.settingsReopened(n.topic(t, -1), t)
}

// opened checks, when the engine has found all topics there are, that none is missing without a cause.
func (n *Node) opened() {
	for _, s := range n.cycle.order {
		if !s.gone && s.life != n.life {
			n.vanished(s)
		}
	}
	clear(n.cycle.doubt)
	clear(n.cycle.messes)
}

// vanished is told of an incarnation that a start did not find any more: a change must have been under way.
func (n *Node) vanished(s *topicShadow) {
	if !n.changing(s.key.name) {
		n.fail(model.Violate("INV-02", "topic %s, incarnation %s, is gone, and nobody was changing it", s.key.name, s.key.incarnation))
	}
	n.topicGone(s.key)
	n.endGone()
	if n.cycle.known[topicKey{s.key.name, n.Incarnation(s.key.name)}].gone {
		n.absence(s.key.name).here = false
	}
}

// forgive forgets failed commits of a topic that goes: they are not tried again.
func (n *Node) forgive(name string) {
	maps.DeleteFunc(n.cycle.failed, func(k engine.Key, _ failure) bool { return k.Topic == name })
}

// absence is when a topic name last belonged to nobody.
type absence struct {
	here  bool
	until int64 // true time
}

func (n *Node) absence(name string) *absence {
	a := n.cycle.absent[name]
	if a == nil {
		a = &absence{}
		n.cycle.absent[name] = a
	}
	return a
}

func (a *absence) end(now int64) {
	if !a.here {
		a.here, a.until = true, now
	}
}

// NotFound judges the answer that a topic is not there to a request that was sent at asked, true time: a purge, or a creation after a
// deletion that was over, leaves no instant at which it is true.
func (n *Node) NotFound(name string, asked env.Instant) error {
	if a := n.absence(name); a.here && a.until < int64(asked) {
		return model.Violate("INV-02", "%s: a request to %s that was sent at %v was answered that there is no such topic, it was there all the time", n.name, name, time.Duration(asked))
	}
	return nil
}

// topicGone is told that an incarnation is durably gone.
func (n *Node) topicGone(key topicKey) {
	s := n.cycle.known[key]
	s.gone, s.goneAt = true, n.now()
	n.Messages.topicGone(n.name, key.name, n.now())
	for _, p := range n.order {
		if p.is(key) {
			p.gone, p.goneAt = true, n.now()
		}
	}
}

func (p *part) is(key topicKey) bool {
	return p.key.Topic == key.name && p.topic.ID == key.incarnation
}

// endGone ends, with the life of the process, what was being retired.
func (n *Node) endGone() {
	for _, p := range n.order {
		if p.gone {
			n.dropPart(p)
		}
	}
}

// dropPart ends a partition whose incarnation is gone; its key means the successor from here on.
func (n *Node) dropPart(p *part) {
	if p.dropped {
		return
	}
	p.dropped = true
	n.Messages.topicGone(n.name, p.key.Topic, n.now()) // until here a produce that had found the topic may have been accepted for it
	p.model.Drop()
	clear(p.unanswered)
	if next := n.cycle.next[p.key]; next != nil && n.parts[p.key] == p {
		n.parts[p.key] = next
		delete(n.cycle.next, p.key)
	}
}

// forgotten is told that the committer holds nothing of a partition any more. For one whose incarnation is gone that ends it.
func (n *Node) forgotten(key engine.Key) {
	p := n.parts[key]
	if p == nil {
		return
	}
	p.slots.primed, p.slots.anchor, p.slots.window, p.slots.levelled = false, -1, -1, false
	idling := p.idling
	p.idling = false
	if !p.gone {
		if _, open := p.model.Committed(); open { // made anew meanwhile: what was acked since may never be written
			n.failPart(p, model.Violate("INV-25", "the committer was told to forget a partition whose lease table is open (COM-51)"))
		}
		return
	}
	if _, open := p.model.Committed(); open && !n.aside(p) { // COM-38, B089
		n.failPart(p, model.Violate("INV-25", "the consumer state was dropped before the directory was set aside"))
	}
	if idling || !n.aside(p) {
		return // it was closed because nobody used it, while its topic was going; the drop is still to come
	}
	if p.stranded {
		n.Goal("S-17")
	}
	n.dropPart(p)
}

// shardDropped checks why a lease table went.
func (n *Node) shardDropped(v engine.ShardDropped) {
	p := n.parts[v.Key]
	switch {
	case p == nil || p.topic.ID != v.Incarnation:
		n.fail(model.Violate("INV-25", "the shard of %s/%d, incarnation %s, was dropped, and is not the one that was open", v.Key.Topic, v.Key.Partition, v.Incarnation))
	case v.Why == engine.DropIdle:
		n.Goal("an idle partition was closed")
		n.Idled, n.idled = n.Idled+1, v.Key
		p.idling = true
		n.failPart(p, p.model.Idle())
		n.crashCopiesOf(p)
	case !p.gone:
		n.failPart(p, model.Violate("INV-25", "the shard was retired although the topic is there"))
	case !n.aside(p): // COM-38, B089
		n.failPart(p, model.Violate("INV-25", "the lease table was dropped before the directory was set aside"))
	default:
		p.model.Drop()
	}
}

// aside reports whether the directory of a partition's incarnation has lost its name, or may have kept it because the disk fails.
func (n *Node) aside(p *part) bool {
	return n.cycle.known[topicKey{p.key.Topic, p.topic.ID}].aside || p.gone && n.excused(syscall.EIO)
}

func (n *Node) crashCopiesOf(p *part) { p.crashCopies(n.now()) }

// seeded returns the partition whose shard was made, after checking that it may be (COM-50, COM-51).
func (n *Node) seeded(v engine.ShardOpened) *part {
	p := n.cycle.all[incKey{v.Key, v.Incarnation}]
	switch {
	case p == nil:
		n.fail(model.Violate("INV-25", "a shard of %s/%d was made for the unknown incarnation %s", v.Key.Topic, v.Key.Partition, v.Incarnation))
	case p.dropped:
		n.failPart(p, model.Violate("INV-25", "a shard was seeded from the directory of incarnation %s after the drop that ended it", v.Incarnation))
	case n.parts[v.Key] != p:
		n.failPart(p, model.Violate("INV-25", "a shard was seeded from the directory of incarnation %s, the live one is %s", v.Incarnation, n.parts[v.Key].topic.ID))
	case p.gone:
		n.Goal("S-20 create first") // a creation of a shard finished before the drop that it raced
	}
	return p
}

// foreign follows a reservation that a consume took, who holds the closed log of an incarnation that is gone, on the lease
// table of its successor (LOG-19). It must come to nothing.
func (n *Node) foreign(p *part, v engine.Leased) {
	n.Goal("a closed log met its successor's lease table")
	if v.Lease.Offset < v.Oldest {
		n.Goal("S-24")
	}
	p.foreign[v.Lease.Nonce] = true
}

// recordDiscarded checks that only what was accepted for a deleted incarnation is discarded (WAL-20).
func (n *Node) recordDiscarded(seq uint64) {
	n.log.dispatched(seq)
	n.Goal("a record of a deleted topic was discarded")
	n.cycle.discarded[seq] = true
	n.mayDiscard(seq)
}

func (n *Node) mayDiscard(seq uint64) {
	key, accepted := n.cycle.recordOf[seq]
	if !accepted || !n.cycle.discarded[seq] {
		return
	}
	if s := n.cycle.known[key]; s == nil || !s.gone {
		n.fail(model.Violate("INV-02", "record %d was accepted for %s, incarnation %s, which is there, and was discarded", seq, key.name, key.incarnation))
	}
}

// acceptedFor notes what a record was accepted for.
func (n *Node) acceptedFor(v engine.Accepted) {
	n.cycle.recordOf[v.Seq] = topicKey{v.Key.Topic, v.Incarnation}
	n.mayDiscard(v.Seq)
}

// withNonce returns the partition that handed out a nonce, whatever its incarnation.
func (n *Node) withNonce(key engine.Key, nonce int64) *part {
	if p := n.parts[key]; p != nil && p.model.KnowsNonce(nonce) {
		return p
	}
	for _, p := range slices.Backward(n.order) {
		if p.key == key && p.model.KnowsNonce(nonce) {
			return p
		}
	}
	return nil
}

// Belongs checks that a message was not delivered under the handle of an incarnation that came into being after the last
// attempt to produce it had been answered (INV-01, LOG-20).
func (n *Node) Belongs(id int, d *engine.Delivery) error {
	p := n.withNonce(engine.Key{Topic: d.Topic, Partition: d.Partition}, d.Handle.Nonce)
	if p == nil {
		return model.Violate("INV-01", "message %d was delivered under the nonce %d, which no shard of %s/%d ever handed out", id, d.Handle.Nonce, d.Topic, d.Partition)
	}
	n.Messages.list[id].storedAt(location{p, d.Offset})
	born := n.cycle.known[topicKey{d.Topic, p.topic.ID}].born
	if end, known := n.Messages.answeredBy(id); known && born >= 0 && end < born {
		return model.Violate("INV-01", "message %d was accepted at %d and delivered from incarnation %s of %s, which was made at %d", id, end, p.topic.ID, d.Topic, born)
	}
	return n.holds(p, d.Offset, id)
}

// Residue checks what deleted topics left on the disk: names are the directories in topics/ (INV-32, PUMP-13).
func (n *Node) Residue(names []string) error {
	living := map[string]bool{}
	for _, s := range n.cycle.order {
		if !s.gone {
			living[s.key.name] = true
		}
	}
	for _, name := range names {
		if !living[name] {
			return model.Violate("INV-32", "%s: topics/%s belongs to no topic", n.name, name)
		}
		delete(living, name)
	}
	for _, name := range slices.Sorted(maps.Keys(living)) {
		return model.Violate("INV-02", "%s: topic %s has no directory", n.name, name)
	}
	return nil
}

// Incarnation returns the id of the newest incarnation of a name that was seen, empty for none.
func (n *Node) Incarnation(name string) string {
	for _, s := range slices.Backward(n.cycle.order) {
		if s.key.name == name {
			return s.key.incarnation
		}
	}
	return ""
}
