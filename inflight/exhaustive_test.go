package inflight

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"narad/env"

	"github.com/stretchr/testify/require"
)

// TestEverySequence runs every sequence of operations up to a length over three offsets against the model: reserve; ack, nack,
// extend, give-back and skip with every handle ever issued, dead ones too; forged acks; expire; a step of half a visibility timeout;
// every jump, and a look at the
// next expiry. Sequences that lead to the same state, down to the order of the heap, are continued once.
//
// INF-02 INF-12 INF-13 INF-14 INF-15 INF-16 INF-17 INF-18 INF-25 INF-33 INF-35 INF-40 INV-05 INV-06 INV-07
func TestEverySequence(t *testing.T) {
	depth := 8
	if os.Getenv("NARAD_LONG") != "" {
		depth = 10
	}
	fresh, states := State{Committed: -1}, 0
	for _, c := range []struct {
		name            string
		inFlight, ahead int
		state           State
	}{
		{"wide caps", 9, 9, fresh},
		{"one in flight", 1, 9, fresh},
		{"two in flight, one ahead", 2, 1, fresh},
		{"one ahead", 9, 1, fresh},
		{"restored ahead of a gap", 9, 1, State{Committed: -1, Ahead: []int64{1}}},
		{"restored and contiguous", 9, 9, State{Committed: -1, Ahead: []int64{0, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Visibility: 2, MaxInFlight: c.inFlight, MaxAckedAhead: c.ahead}
			x := explorer{t: t, seen: map[string]int{}}
			root := newPair(o, c.state, 3)
			require.NoError(t, root.compare())
			x.explore(root, depth, nil)
			t.Logf("%d operations over %d states, sequences up to %d", x.applied, len(x.seen), depth)
			states += len(x.seen)
		})
	}
	require.Greater(t, states, 5000, "the exploration ended early")
}

type explorer struct {
	t       *testing.T
	seen    map[string]int // fingerprint → steps left when it was explored
	applied int
}

func (x *explorer) explore(p *pair, left int, path []op) {
	key := p.fingerprint()
	if done, ok := x.seen[key]; ok && done >= left {
		return
	}
	x.seen[key] = left
	if left == 0 {
		return
	}
	for _, o := range p.options() {
		q := p.clone()
		x.applied++
		if err := q.apply(o); err != nil {
			x.t.Fatalf("%v then %v: %v", path, o, err)
		}
		x.explore(q, left-1, append(path[:len(path):len(path)], o))
	}
}

func (p *pair) options() []op {
	ops := []op{{kind: opReserve}, {kind: opExpire}, {kind: opNext}, {kind: opStep, n: 1}}
	for to := int64(1); to <= p.hw; to++ {
		ops = append(ops, op{kind: opJump, n: to})
	}
	for _, l := range p.handles {
		for _, kind := range []opKind{opAck, opNack, opExtend, opRelease, opSkip} {
			ops = append(ops, op{kind: kind, offset: l.Offset, nonce: l.Nonce})
		}
	}
	if len(p.handles) > 0 {
		l := p.handles[len(p.handles)-1]
		ops = append(ops, op{kind: opAck, offset: l.Offset, nonce: l.Nonce ^ 1}, op{kind: opAck, offset: l.Offset + 1, nonce: l.Nonce})
	}
	return ops
}

func (p *pair) clone() *pair {
	c := *p
	s := *p.shard
	s.leases.slots = slices.Clone(s.leases.slots)
	s.deadlines.entries = slices.Clone(s.deadlines.entries)
	for _, b := range []*bits{&s.acked, &s.skipped, &s.returned} {
		b.words, b.summary = slices.Clone(b.words), slices.Clone(b.summary)
	}
	if s.nonces == nil {
		s.nonces = env.NewStream(s.opts.Seed)
	}
	p.shard.nonces = s.nonces // shared: nonces differ between branches and the fingerprint renames them
	c.shard, c.model, c.handles = &s, p.model.clone(), slices.Clone(p.handles)
	c.nonces = map[int64]bool{}
	for _, l := range c.handles {
		c.nonces[l.Nonce] = true
	}
	return &c
}

// fingerprint describes the whole state of both sides, with nonces as the number of the handle and instants relative to now.
func (p *pair) fingerprint() string {
	var b []byte
	add := func(numbers ...int64) {
		for _, n := range numbers {
			b = binary.AppendVarint(b, n)
		}
	}
	ordinal := func(nonce int64) int64 {
		return int64(slices.IndexFunc(p.handles, func(l Lease) bool { return l.Nonce == nonce }))
	}
	s := p.shard
	add(s.committed, s.next, p.highest, int64(len(p.handles)))
	for _, set := range []*bits{&s.acked, &s.skipped, &s.returned} {
		members := set.appendTo(nil)
		add(int64(len(members)))
		add(members...)
	}
	for _, entries := range [][]Lease{s.leases.appendTo(nil), s.deadlines.entries} {
		add(int64(len(entries)))
		for _, l := range entries {
			add(l.Offset, ordinal(l.Nonce), int64(l.Expiry-p.now))
		}
	}
	for _, l := range p.handles {
		add(l.Offset)
	}
	return string(b)
}
