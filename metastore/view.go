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

// next returns the view after a change, which must be legal here; ok is false when it is not.
func (v *view) next(c change) (n *view, ok bool) {
	at, found := v.find(c.Topic.Name)
	topics := make([]*Topic, 0, len(v.topics)+1)
	topics = append(topics, v.topics[:at]...)
	switch {
	case c.Op == opCreate && !found && c.Topic.check() == nil:
		topics = append(append(topics, &c.Topic), v.topics[at:]...)
	case c.Op == opUpdate && found && v.topics[at].checkChange(&c.Topic) == nil:
		topics = append(append(topics, &c.Topic), v.topics[at+1:]...)
	case c.Op == opDelete && found && v.topics[at].ID == c.Topic.ID:
		topics = append(topics, v.topics[at+1:]...)
	default:
		return nil, false
	}
	return &view{sequence: v.sequence + 1, topics: topics}, true
}
