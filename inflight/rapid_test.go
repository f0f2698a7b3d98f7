package inflight

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRandomHistories drives a shard and the model of model_test.go with long histories of every operation, live, stale and
// forged handles among them, at small caps.
//
// INF-02 INF-03 INF-04 INF-06 INF-11 INF-12 INF-17 INF-18 INF-26 INF-27 INF-28 INF-29 INF-33 INF-35 REC-03 REC-11 INV-16
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		limits := func() Options {
			return Options{Visibility: time.Duration(small("visibility", 6)), MaxInFlight: small("in flight", 6), MaxAckedAhead: small("ahead", 5)}
		}
		state := State{Committed: rapid.Int64Range(-1, 3).Draw(t, "committed")}
		o := limits()
		for offset := int64(0); offset < 9; offset++ {
			if rapid.IntRange(0, 3).Draw(t, "restored") == 0 && len(state.Ahead) < o.MaxInFlight+o.MaxAckedAhead {
				state.Ahead = append(state.Ahead, offset)
			}
		}
		p := newPair(o, state, rapid.Int64Range(0, 12).Draw(t, "hw"))
		require.NoError(t, p.compare())
		for range rapid.IntRange(1, 120).Draw(t, "length") {
			step := p.draw(func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }, limits)
			if err := p.apply(step); err != nil {
				t.Fatalf("%v: %v", step, err)
			}
		}
	})
}

// TestManyRandomHistories is the same with plain random numbers, for many more histories and larger caps.
func TestManyRandomHistories(t *testing.T) {
	runs := 3000
	if os.Getenv("NARAD_LONG") != "" {
		runs *= 100
	}
	applied := 0
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 3 + r.IntN(2)*r.IntN(150)
		limits := func() Options {
			return Options{Visibility: time.Duration(1 + r.IntN(60)), MaxInFlight: 1 + r.IntN(most), MaxAckedAhead: 1 + r.IntN(most)}
		}
		p := newPair(limits(), State{Committed: -1 + int64(r.IntN(3))}, int64(r.IntN(400)))
		for range 60 + most {
			step := p.draw(func(_ string, n int) int { return r.IntN(n) }, limits)
			if err := p.apply(step); err != nil {
				t.Fatalf("seed %d: %v: %v", seed, step, err)
			}
			applied++
		}
	}
	t.Logf("%d histories, %d operations", runs, applied)
}

// draw picks the next operation.
func (p *pair) draw(pick func(name string, n int) int, limits func() Options) op {
	kinds := []opKind{
		opReserve, opReserve, opReserve, opReserve, opAck, opAck, opAck, opNack, opExtend, opRelease, opSkip,
		opExpire, opStep, opStep, opJump, opLimits, opTrim, opAppend, opNext,
	}
	o := op{kind: kinds[pick("op", len(kinds))]}
	switch o.kind {
	case opAck, opNack, opExtend, opRelease, opSkip:
		if len(p.handles) == 0 {
			return op{kind: opReserve}
		}
		// Mostly a recent handle; it may be stale in every way.
		back := pick("handle", min(len(p.handles), 8))
		l := p.handles[len(p.handles)-1-back]
		o.offset, o.nonce = l.Offset, l.Nonce
		switch pick("forge", 20) {
		case 0:
			o.nonce++
		case 1:
			o.offset++
		}
	case opStep:
		o.n = int64(1 + pick("step", int(p.model.visibility)+1))
	case opJump:
		if pick("jump", 4) > 0 {
			return op{kind: opReserve}
		}
		o.n = p.model.committed + int64(pick("to", 6))
	case opLimits:
		if pick("change", 4) > 0 {
			return op{kind: opReserve}
		}
		o.limits = limits()
	case opAppend:
		o.n = int64(pick("records", 8))
	}
	return o
}
