package realfs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"narad/engine"
	"narad/inflight"
	"narad/sim/model"
)

// Facts are what is known at one instant: of messages, by number, and of partitions, by their names. They are written beside an
// image that fails, so that it can be judged again.
type Facts struct {
	Topics   map[string]int   `json:"topics"` // partitions of those whose creation was answered
	Messages []Message        `json:"messages"`
	Parts    map[string]*Part `json:"partitions"` // by topic/partition

	At       time.Duration `json:"at"` // of the cut, since the life began
	Interval time.Duration `json:"interval"`
	Longest  time.Duration `json:"longest"` // tick or writeout of the life
	Late     time.Duration `json:"late"`    // by how much a sleeper of the life was woken late, at most
	Ticks    *Ticks        `json:"ticks"`   // nil: none has ended in this life
}

// Ticks are the last tick of the committer that ended without a failure.
type Ticks struct {
	Began time.Duration `json:"began"`
	Ended time.Duration `json:"ended"`
}

// Message is one that a client tried to produce.
type Message struct {
	Topic    string `json:"topic"`
	Size     int    `json:"size"`
	Accepted bool   `json:"accepted,omitempty"`
	AckTried bool   `json:"ack_tried,omitempty"` // of any copy
}

// Part is a partition. Offsets are keys.
type Part struct {
	Copies   map[int64]int           `json:"copies"`    // messages that were delivered
	AckTried map[int64]bool          `json:"ack_tried"` // in any life
	Acked    map[int64]time.Duration `json:"acked"`     // in this life, when the ack had returned
	Next     int64                   `json:"next"`      // one beyond the highest offset that was confirmed
	Written  inflight.State          `json:"written"`   // what the page cache certainly holds
	Durable  inflight.State          `json:"durable"`   // what the disk certainly holds

	taken inflight.State // what the committer read last
}

func newFacts() *Facts { return &Facts{Topics: map[string]int{}, Parts: map[string]*Part{}} }

func partName(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// part returns the facts of a partition, made when there are none.
func (f *Facts) part(k engine.Key) *Part {
	name := partName(k.Topic, k.Partition)
	p := f.Parts[name]
	if p == nil {
		none := inflight.State{Committed: -1}
		p = &Part{Copies: map[int64]int{}, AckTried: map[int64]bool{}, Acked: map[int64]time.Duration{}, Written: none, Durable: none, taken: none}
		f.Parts[name] = p
	}
	return p
}

// clone returns a copy that shares nothing that changes.
func (f *Facts) clone() *Facts {
	c := *f
	c.Topics, c.Messages, c.Parts = maps.Clone(f.Topics), slices.Clone(f.Messages), make(map[string]*Part, len(f.Parts))
	for name, p := range f.Parts {
		q := *p // states are replaced, never changed
		q.Copies, q.AckTried, q.Acked = maps.Clone(p.Copies), maps.Clone(p.AckTried), maps.Clone(p.Acked)
		c.Parts[name] = &q
	}
	return &c
}

// after returns the facts that the next life begins with.
func (f *Facts) after(c Crash) *Facts {
	next := f.clone()
	for _, p := range next.Parts {
		clear(p.Acked)
		if c == PowerLoss {
			p.Written = p.Durable
		}
		p.taken = p.Written
	}
	return next
}

func settled(s inflight.State, offset int64) bool {
	if offset <= s.Committed {
		return true
	}
	_, found := slices.BinarySearch(s.Ahead, offset)
	return found
}

// union returns the state in which is settled what is settled in either.
func union(a, b inflight.State) inflight.State {
	s := inflight.State{Committed: max(a.Committed, b.Committed)}
	all := slices.Concat(a.Ahead, b.Ahead)
	slices.Sort(all)
	for _, o := range slices.Compact(all) {
		switch {
		case o <= s.Committed:
		case o == s.Committed+1 && len(s.Ahead) == 0:
			s.Committed = o
		default:
			s.Ahead = append(s.Ahead, o)
		}
	}
	return s
}

// missing returns an offset that is settled in floor and not in s.
func missing(floor, s inflight.State) (int64, bool) {
	for o := s.Committed + 1; o <= floor.Committed; o++ {
		if !settled(s, o) {
			return o, true
		}
	}
	for _, o := range floor.Ahead {
		if !settled(s, o) {
			return o, true
		}
	}
	return 0, false
}

func violate(invariant, format string, args ...any) error {
	return model.Violate(invariant, format, args...)
}
