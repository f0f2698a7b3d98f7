package inflight

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"narad/env"
)

// model is the specification of a shard in plain maps: no cursor, no heap, no bitmap, every question answered by
// looking at each offset.
type model struct {
	visibility      time.Duration
	inFlight, ahead int // caps
	committed       int64
	leases          map[int64]Lease
	acked, skipped  map[int64]bool
	handedOut       map[int64]bool
}

func newModel(o Options, s State) *model {
	o = o.withDefaults()
	m := &model{
		visibility: o.Visibility, inFlight: o.MaxInFlight, ahead: o.MaxAckedAhead, committed: s.Committed,
		leases: map[int64]Lease{}, acked: map[int64]bool{}, skipped: map[int64]bool{}, handedOut: map[int64]bool{},
	}
	for _, offset := range s.Ahead {
		if offset > m.committed {
			m.acked[offset] = true
		}
	}
	m.advance()
	return m
}

func (m *model) clone() *model {
	c := *m
	c.leases, c.acked, c.skipped, c.handedOut = maps.Clone(m.leases), maps.Clone(m.acked), maps.Clone(m.skipped), maps.Clone(m.handedOut)
	return &c
}

func (m *model) advance() (moved bool) {
	for m.acked[m.committed+1] || m.skipped[m.committed+1] {
		m.committed++
		moved = true
	}
	for _, set := range []map[int64]bool{m.acked, m.skipped, m.handedOut} {
		maps.DeleteFunc(set, func(o int64, _ bool) bool { return o <= m.committed })
	}
	maps.DeleteFunc(m.leases, func(o int64, _ Lease) bool { return o <= m.committed })
	return moved
}

func (m *model) capped() bool {
	_, holeLeased := m.leases[m.committed+1]
	return len(m.leases) >= m.inFlight || len(m.acked) >= m.ahead && holeLeased
}

func (m *model) free(offset int64) bool {
	_, leased := m.leases[offset]
	return offset > m.committed && !leased && !m.acked[offset] && !m.skipped[offset]
}

// purge ends every lease with now >= expiry.
func (m *model) purge(now env.Instant) (released int) {
	maps.DeleteFunc(m.leases, func(_ int64, l Lease) bool {
		if now >= l.Expiry {
			released++
			return true
		}
		return false
	})
	return released
}

// reserve says which offset must be handed out.
func (m *model) reserve(hw int64) (int64, Outcome) {
	if len(m.leases) >= m.inFlight {
		return 0, InFlightCap
	}
	if m.committed+1 >= hw {
		return 0, Empty
	}
	for offset := m.committed + 1; offset < hw; offset++ {
		if !m.free(offset) {
			continue
		}
		if offset != m.committed+1 && len(m.acked) >= m.ahead {
			return 0, AheadCap
		}
		return offset, Reserved
	}
	return 0, AllReserved
}

func (m *model) nextExpiry() (env.Instant, bool) {
	next := env.Forever
	for _, l := range m.leases {
		next = min(next, l.Expiry)
	}
	return next, len(m.leases) > 0
}

func (m *model) live(offset, nonce int64) bool {
	l, ok := m.leases[offset]
	return ok && l.Nonce == nonce
}

func (m *model) returned() (n int) {
	for offset := range m.handedOut {
		if m.free(offset) {
			n++
		}
	}
	return n
}

func (m *model) available(hw, oldest int64) (n int64) {
	if m.capped() {
		return 0
	}
	for offset := max(m.committed+1, oldest); offset < hw; offset++ {
		if m.free(offset) {
			n++
		}
	}
	room := m.inFlight - len(m.leases)
	if len(m.acked) >= m.ahead {
		room = 1
	}
	return min(n, int64(room))
}

func (m *model) snapshot() State {
	return State{Committed: m.committed, Ahead: slices.Sorted(maps.Keys(m.acked))}
}

type opKind int

const (
	opReserve opKind = iota
	opAck
	opNack
	opExtend
	opRelease
	opSkip
	opExpire
	opStep
	opJump
	opLimits
	opTrim
	opAppend
	opNext
)

func (k opKind) String() string {
	return [...]string{"reserve", "ack", "nack", "extend", "release", "skip", "expire", "step", "jump", "limits", "trim", "append", "next"}[k]
}

// op is one operation: on the handle (offset, nonce), or with the number n.
type op struct {
	kind          opKind
	offset, nonce int64
	n             int64
	limits        Options
}

func (o op) String() string {
	return fmt.Sprintf("%s(%d:%d,%d)", o.kind, o.offset, o.nonce, o.n)
}

// pair is a shard and its specification, driven together.
type pair struct {
	shard   *Shard
	model   *model
	now     env.Instant
	hw      int64
	handles []Lease // all that were ever given out
	nonces  map[int64]bool
	// the largest limits so far, and the highest offset handed out
	inFlightMax, aheadMax int
	highest               int64
}

func newPair(o Options, s State, hw int64) *pair {
	p := &pair{shard: New(o, s), model: newModel(o, s), hw: hw, nonces: map[int64]bool{}, highest: -1}
	p.inFlightMax, p.aheadMax = p.model.inFlight, p.model.ahead
	return p
}

func effects(freed, uncapped, advanced bool) (e Effect) {
	if freed {
		e |= Freed
	}
	if uncapped {
		e |= Uncapped
	}
	if advanced {
		e |= Advanced
	}
	return e
}

// apply does o on both and returns an error that tells the difference, if there is one.
func (p *pair) apply(o op) error {
	m, before, version := p.model, p.model.snapshot(), p.shard.Version()
	committed := m.committed
	wasCapped, released := m.capped(), 0
	if o.kind <= opExtend || o.kind == opExpire { // the calls that take now: INF-20, Q-51
		released = m.purge(p.now)
	}
	var got, want Effect
	uncapped := func() bool { return wasCapped && !m.capped() }
	var gotOK, wantOK bool
	switch o.kind {
	case opReserve:
		var l Lease
		var outcome Outcome
		l, outcome, got = p.shard.Reserve(p.now, p.hw)
		offset, wantOutcome := m.reserve(p.hw)
		if outcome != wantOutcome || outcome == Reserved && l.Offset != offset {
			return fmt.Errorf("%v of offset %d, want %v of %d", outcome, l.Offset, wantOutcome, offset)
		}
		if outcome == Reserved {
			if l.Nonce <= 0 || p.nonces[l.Nonce] {
				return fmt.Errorf("nonce %d is not fresh", l.Nonce)
			}
			if want := p.now.Add(m.visibility); l.Expiry != want {
				return fmt.Errorf("expiry %d, want %d", l.Expiry, want)
			}
			p.nonces[l.Nonce] = true
			p.handles = append(p.handles, l)
			p.highest = max(p.highest, offset)
			m.leases[offset], m.handedOut[offset] = l, true
		}
		want = effects(released > 0 && m.returned() > 0, uncapped(), false)
	case opAck:
		gotOK, got = p.shard.Ack(p.now, o.offset, o.nonce)
		if wantOK = m.live(o.offset, o.nonce); wantOK {
			delete(m.leases, o.offset)
			m.acked[o.offset] = true
			m.advance()
		}
		want = effects(released > 0, uncapped(), wantOK)
	case opNack:
		gotOK, got = p.shard.Nack(p.now, o.offset, o.nonce)
		if wantOK = m.live(o.offset, o.nonce); wantOK {
			delete(m.leases, o.offset)
		}
		want = effects(released > 0 || wantOK, uncapped(), false)
	case opExtend:
		var expiry env.Instant
		expiry, gotOK, got = p.shard.Extend(p.now, o.offset, o.nonce)
		if wantOK = m.live(o.offset, o.nonce); wantOK {
			l := m.leases[o.offset]
			l.Expiry = p.now.Add(m.visibility)
			m.leases[o.offset] = l
			if gotOK && expiry != l.Expiry {
				return fmt.Errorf("extended to %d, want %d", expiry, l.Expiry)
			}
		}
		want = effects(released > 0, uncapped(), false)
	case opRelease:
		gotOK, got = p.shard.Release(o.offset, o.nonce)
		if wantOK = m.live(o.offset, o.nonce); wantOK {
			delete(m.leases, o.offset)
		}
		want = effects(wantOK, uncapped(), false)
	case opSkip:
		gotOK, got = p.shard.SkipCorrupt(o.offset, o.nonce)
		moved := false
		if wantOK = m.live(o.offset, o.nonce); wantOK {
			delete(m.leases, o.offset)
			m.skipped[o.offset] = true
			moved = m.advance()
		}
		want = effects(false, uncapped(), moved)
	case opExpire:
		var n int
		n, got = p.shard.Expire(p.now)
		if n != released {
			return fmt.Errorf("%d leases released, want %d", n, released)
		}
		want = effects(released > 0, uncapped(), false)
	case opStep:
		p.now += env.Instant(o.n)
	case opJump:
		gotOK, got = p.shard.JumpTo(o.n)
		if wantOK = o.n-1 > m.committed; wantOK {
			m.committed = o.n - 1
			m.advance()
		}
		want = effects(false, uncapped(), wantOK)
	case opLimits:
		got = p.shard.SetLimits(o.limits)
		m.visibility, m.inFlight, m.ahead = o.limits.Visibility, o.limits.MaxInFlight, o.limits.MaxAckedAhead
		p.inFlightMax, p.aheadMax = max(p.inFlightMax, m.inFlight), max(p.aheadMax, m.ahead)
		want = effects(false, uncapped(), false)
	case opTrim:
		p.shard.Trim()
	case opAppend:
		p.hw += o.n
	case opNext: // an operation, not a part of every comparison: it drops stale deadlines, which the others must meet too
		at, ok := p.shard.NextExpiry()
		if want, leased := m.nextExpiry(); ok != leased || ok && at != want {
			return fmt.Errorf("next expiry %d %v, want %d %v", at, ok, want, leased)
		}
	}
	if gotOK != wantOK {
		return fmt.Errorf("ok %v, want %v", gotOK, wantOK)
	}
	if got != want {
		return fmt.Errorf("effect %v, want %v", got, want)
	}
	after := m.snapshot()
	changed := after.Committed != before.Committed || !slices.Equal(after.Ahead, before.Ahead)
	if (p.shard.Version() != version) != changed {
		return fmt.Errorf("version changed %v, state changed %v", p.shard.Version() != version, changed)
	}
	if p.shard.Committed() < committed {
		return fmt.Errorf("the frontier moved back from %d to %d", committed, p.shard.Committed())
	}
	return p.compare()
}

// compare checks the whole state of the shard against the model's, and the shard's own invariants.
func (p *pair) compare() error {
	s, m := p.shard, p.model
	got, want := s.Snapshot(nil), m.snapshot()
	if got.Committed != want.Committed || !slices.Equal(got.Ahead, want.Ahead) {
		return fmt.Errorf("state %v, want %v", got, want)
	}
	if s.Leases() != len(m.leases) || s.AckedAhead() != len(m.acked) || s.Skipped() != len(m.skipped) {
		return fmt.Errorf("counts %d %d %d, want %d %d %d", s.Leases(), s.AckedAhead(), s.Skipped(), len(m.leases), len(m.acked), len(m.skipped))
	}
	for offset, l := range m.leases {
		if got, ok := s.Lookup(offset); !ok || got != l {
			return fmt.Errorf("lease %v of %d, want %v", got, offset, l)
		}
	}
	for _, oldest := range []int64{0, m.committed + 1, m.committed + 3} {
		if got, want := s.Available(p.hw, oldest), m.available(p.hw, oldest); got != want {
			return fmt.Errorf("available from %d: %d, want %d", oldest, got, want)
		}
	}
	return p.invariants()
}

func (p *pair) invariants() error {
	s := p.shard
	if s.next <= s.committed {
		return fmt.Errorf("next %d is not above the frontier %d", s.next, s.committed)
	}
	if stale := len(s.deadlines.entries) - s.leases.count; stale > max(staleMin, len(s.leases.slots)) {
		return fmt.Errorf("%d stale deadlines", stale)
	}
	if got := s.leases.count; got > p.inFlightMax {
		return fmt.Errorf("%d leases over the cap", got) // INF-26, INV-16
	}
	if got := s.acked.count; got >= p.inFlightMax+p.aheadMax+1 {
		return fmt.Errorf("%d acked ahead over both caps", got) // INF-28
	}
	if got := p.highest - s.committed; got > int64(p.inFlightMax+p.aheadMax+s.skipped.count) {
		return fmt.Errorf("the highest offset handed out is %d above the frontier", got) // INF-29
	}
	for i, e := range s.deadlines.entries {
		if i > 0 && s.deadlines.entries[(i-1)/2].Expiry > e.Expiry {
			return fmt.Errorf("heap order broken at %d", i)
		}
	}
	for _, b := range []*bits{&s.acked, &s.skipped, &s.returned} {
		members := b.appendTo(nil)
		if b.base != s.committed+1 || len(members) > 0 && members[0] <= s.committed || !slices.IsSorted(members) {
			return fmt.Errorf("set %v with base %d over frontier %d", members, b.base, s.committed)
		}
	}
	return nil
}
