package check

import (
	"fmt"
	"strings"

	"narad/engine"
	"narad/sim/model"
)

// What AlterTopic answers is in effect when it returns, in the lease tables that are open as in those that are opened later, and stays so
// across crashes: the checks of caps (INV-16, INV-17) and of ages (INV-29) follow what was promised, not what the engine does.

// alteration are the calls of operators about one topic name that have no answer yet.
type alteration struct {
	open  int
	patch engine.TopicPatch // of the newest
}

// Altering tells that an operator sent an alteration of a topic.
func (n *Node) Altering(name string, patch engine.TopicPatch) {
	a := n.cycle.altering[name]
	if a == nil {
		a = &alteration{}
		n.cycle.altering[name] = a
	}
	a.open, a.patch = a.open+1, patch
}

// AlterEnded is told after [Node.Altering]. When it is not known what came of it, a later start may show it.
func (n *Node) AlterEnded(name string, known bool) {
	n.cycle.altering[name].open--
	for _, s := range n.cycle.order {
		if s.key.name == name && !s.gone && !known {
			s.doubtful = true
		}
	}
}

// Altered judges the answer to an alteration, from within the process and at the instant of its return.
func (n *Node) Altered(patch engine.TopicPatch, t engine.Topic) {
	s := n.cycle.known[topicKey{t.Name, t.ID}]
	switch {
	case s == nil:
		n.fail(model.Violate("AVL-01", "an alteration of %s was answered for the unknown incarnation %s", t.Name, t.ID))
		return
	case s.gone:
		return
	case patched(t, patch) != settingsOf(t):
		n.fail(model.Violate("AVL-01", "an alteration of %s was answered with %+v, asked for were %s", t.Name, settingsOf(t), describePatch(patch)))
	}
	for _, p := range n.order {
		if _, open := p.model.Committed(); open && p.is(s.key) {
			n.failPart(p, n.capsHold(p))
		}
	}
}

// altered follows an alteration that is durable and about to be in effect.
func (n *Node) altered(t engine.Topic) {
	n.Topic(t)
	s := n.cycle.known[topicKey{t.Name, t.ID}]
	if a := n.cycle.altering[t.Name]; a != nil && a.open == 1 && !s.doubtful {
		if want := patched(s.topic, a.patch); settingsOf(t) != want {
			n.fail(model.Violate("AVL-01", "topic %s was altered from %+v to %+v, asked for were %s", t.Name, settingsOf(s.topic), settingsOf(t), describePatch(a.patch)))
		}
	}
	n.settle(s, t)
}

// purged checks that a purge leaves the settings alone.
func (n *Node) purged(old topicKey, t engine.Topic) {
	if s := n.cycle.known[old]; s != nil && !s.doubtful && settingsOf(s.topic) != settingsOf(t) {
		n.fail(model.Violate("AVL-01", "a purge changed the settings of %s from %+v to %+v", t.Name, settingsOf(s.topic), settingsOf(t)))
	}
}

// settingsReopened checks that a start finds the settings that were answered last.
func (n *Node) settingsReopened(s *topicShadow, t engine.Topic) {
	a := n.cycle.altering[t.Name]
	if !s.doubtful && (a == nil || a.open == 0) && settingsOf(s.topic) != settingsOf(t) {
		n.fail(model.Violate("AVL-01", "topic %s has the settings %+v after a start, they were %+v", t.Name, settingsOf(t), settingsOf(s.topic)))
	}
	s.doubtful = s.doubtful && a != nil && a.open > 0
	n.settle(s, t)
}

// settle notes the settings that a topic has from now on.
func (n *Node) settle(s *topicShadow, t engine.Topic) {
	s.topic = t
	for _, p := range n.order {
		if p.is(s.key) && p.topic.RetentionMs != t.RetentionMs {
			p.retuned(t.RetentionMs, n.now())
		}
	}
}

// limitsSet follows the caps of a lease table, which are those of its topic.
func (n *Node) limitsSet(v engine.LimitsSet) {
	p := n.parts[v.Key]
	p.topic.MaxInFlight, p.topic.MaxAckedAhead = int32(v.MaxInFlight), int32(v.MaxAckedAhead)
	n.failPart(p, n.capsHold(p))
}

func (n *Node) capsHold(p *part) error {
	want := n.cycle.known[topicKey{p.key.Topic, p.topic.ID}].topic
	if p.topic.MaxInFlight != want.MaxInFlight || p.topic.MaxAckedAhead != want.MaxAckedAhead {
		return model.Violate("INV-16", "the lease table has the caps %d and %d, the topic has %d and %d",
			p.topic.MaxInFlight, p.topic.MaxAckedAhead, want.MaxInFlight, want.MaxAckedAhead)
	}
	return nil
}

// settings are what can be altered.
type settings struct {
	Retention                  int64
	MaxInFlight, MaxAckedAhead int32
	Partitions                 int32
}

func settingsOf(t engine.Topic) settings {
	return settings{t.RetentionMs, t.MaxInFlight, t.MaxAckedAhead, t.Partitions}
}

// patched returns the settings after a patch, which names no defaults.
func patched(t engine.Topic, patch engine.TopicPatch) settings {
	s := settingsOf(t)
	if patch.RetentionMs != nil {
		s.Retention = *patch.RetentionMs
	}
	if patch.MaxInFlight != nil {
		s.MaxInFlight = int32(*patch.MaxInFlight)
	}
	if patch.MaxAckedAhead != nil {
		s.MaxAckedAhead = int32(*patch.MaxAckedAhead)
	}
	if patch.Partitions != nil {
		s.Partitions = int32(*patch.Partitions)
	}
	return s
}

func describePatch(p engine.TopicPatch) string {
	text := ""
	add := func(name string, set bool, value func() int64) {
		if set {
			text += fmt.Sprintf("%s=%d ", name, value())
		}
	}
	add("retention", p.RetentionMs != nil, func() int64 { return *p.RetentionMs })
	add("in flight", p.MaxInFlight != nil, func() int64 { return int64(*p.MaxInFlight) })
	add("ahead", p.MaxAckedAhead != nil, func() int64 { return int64(*p.MaxAckedAhead) })
	add("partitions", p.Partitions != nil, func() int64 { return int64(*p.Partitions) })
	return strings.TrimSpace(text)
}
