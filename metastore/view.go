package metastore

import (
	"slices"
	"strings"
)

// view is one state of the store. It never changes once it is published.
type view struct {
	sequence uint64
	topics   []*Topic // by name; shared between views
}

// find returns where a name is in the topics, or would be.
func (v *view) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v.topics, name, func(t *Topic, name string) int { return strings.Compare(t.Name, name) })
}

// legal reports whether a change fits a state in which its name leads to now, or to nothing when that is nil.
func (c *change) legal(now *Topic) bool {
	switch c.Op {
	case opCreate:
		return now == nil && c.Topic.check() == nil
	case opUpdate:
		return now != nil && now.checkChange(&c.Topic) == nil
	case opReplace:
		return now != nil && now.checkReplacement(&c.Topic) == nil
	case opDelete:
		return now != nil && now.ID == c.Topic.ID
	}
	return false
}

// next returns the view after a legal change.
func (v *view) next(c change) *view {
	at, found := v.find(c.Topic.Name)
	rest := v.topics[at:]
	if found {
		rest = rest[1:]
	}
	topics := make([]*Topic, 0, len(v.topics)+1)
	topics = append(topics, v.topics[:at]...)
	if c.Op != opDelete {
		topics = append(topics, &c.Topic)
	}
	return &view{sequence: v.sequence + 1, topics: append(topics, rest...)}
}

// builder applies many changes, each at a cost that does not depend on the number of topics.
type builder struct {
	sequence uint64
	topics   map[string]*Topic
}

func newBuilder(v *view) *builder {
	b := &builder{sequence: v.sequence, topics: make(map[string]*Topic, len(v.topics))}
	for _, t := range v.topics {
		b.topics[t.Name] = t
	}
	return b
}

// apply makes a change and reports whether it was legal.
func (b *builder) apply(c change) bool {
	if !c.legal(b.topics[c.Topic.Name]) {
		return false
	}
	if c.Op == opDelete {
		delete(b.topics, c.Topic.Name)
	} else {
		b.topics[c.Topic.Name] = &c.Topic
	}
	b.sequence++
	return true
}

func (b *builder) view() *view {
	v := &view{sequence: b.sequence, topics: make([]*Topic, 0, len(b.topics))}
	for _, t := range b.topics { // order-free: sorted below
		v.topics = append(v.topics, t)
	}
	slices.SortFunc(v.topics, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return v
}
