package model

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// visible is the lease time of generated histories, slop what clocks and calls add to what is known of an expiry.
const (
	visible = int64(20)
	slop    = int64(2)
)

// generator runs a copy: an owner who leases it and clients who hold handles, in instants of a nanosecond.
type generator struct {
	t     *rapid.T
	now   int64
	nonce int64
	state copyState // low is when the lease really ends
	ops   []porcupine.Operation
}

func (g *generator) pick(n int) int { return rapid.IntRange(0, n-1).Draw(g.t, "pick") }

func (g *generator) instant(op CopyOp, nonce int64) {
	in := CopyInput{Op: op, Nonce: nonce, Call: g.now, Ret: g.now}
	if op == OpReserve {
		in.ExpiryLow, in.ExpiryHigh = g.now+visible-slop, g.now+visible+slop
	}
	g.ops = append(g.ops, porcupine.Operation{Input: in, Call: g.now, Output: OK, Return: g.now})
}

func (g *generator) lapse() {
	if g.state.phase == leased && g.now >= g.state.low {
		g.state = copyState{was: g.state.was}
	}
}

// step does one thing, as a correct owner would.
func (g *generator) step() {
	g.now += int64(g.pick(8))
	g.lapse()
	switch g.pick(10) {
	case 0, 1, 2:
		if g.state.phase == free {
			g.nonce++
			g.state = copyState{phase: leased, nonce: g.nonce, low: g.now + visible, was: g.state.was}
			g.instant(OpReserve, g.nonce)
		}
	case 3:
		if g.state.phase == leased {
			g.instant(OpRelease, g.state.nonce)
			g.state = copyState{was: g.state.was}
		}
	case 4:
		g.instant(OpCrash, 0)
		if g.state = (copyState{was: g.state.was}); g.state.was && g.pick(2) == 0 { // the ack survives, or comes back
			g.state.phase = settled
		}
	default:
		g.handle([]CopyOp{OpAck, OpExtend, OpNack}[g.pick(3)])
	}
}

// handle is a client's operation that takes effect now, was called before, and is answered later, or never.
func (g *generator) handle(op CopyOp) {
	if g.nonce == 0 {
		return
	}
	nonce := max(1, g.nonce-int64(g.pick(2)))
	in := CopyInput{Op: op, Nonce: nonce, Call: g.now - int64(g.pick(int(min(g.now+1, 5)))), Ret: g.now + int64(g.pick(5))}
	in.ExpiryLow, in.ExpiryHigh = in.Call+visible-slop, in.Ret+visible+slop
	out := Gone
	if g.state.phase == leased && g.state.nonce == nonce {
		out = OK
		switch op {
		case OpAck:
			g.state = copyState{phase: settled, was: true}
		case OpNack:
			g.state = copyState{was: g.state.was}
		case OpExtend:
			g.state.low = g.now + visible
		}
	}
	if g.pick(6) == 0 {
		out, in.Ret = Unknown, math.MaxInt64/2
	}
	g.ops = append(g.ops, porcupine.Operation{Input: in, Call: in.Call, Output: out, Return: in.Ret})
}

func history(t *rapid.T) *generator {
	g := &generator{t: t}
	for range rapid.IntRange(1, 16).Draw(t, "steps") {
		g.step()
	}
	if g.state.phase == settled {
		g.now++
		g.instant(OpFinal, 0)
	}
	return g
}

func both(t *rapid.T, ops []porcupine.Operation) (byPorcupine, byIntervals bool) {
	ordered := Ordered(ops)
	verdict := porcupine.CheckOperationsTimeout(Copy(), ordered, 20*time.Second)
	require.NotEqual(t, porcupine.Unknown, verdict)
	legal, decided := Linearizable(ordered)
	if stepped, sequential := Sequential(compact(ops)); sequential {
		require.Equal(t, verdict == porcupine.Ok, stepped, "a history without overlaps")
	}
	require.True(t, decided)
	return verdict == porcupine.Ok, legal
}

// compact undoes [Operations].
func compact(ops []porcupine.Operation) (history []CopyOperation) {
	for _, op := range ops {
		in := op.Input.(CopyInput)
		in.Call, in.Ret = op.Call, op.Return
		history = append(history, CopyOperation{in, int32(op.ClientId), op.Output.(CopyOutput)})
	}
	return history
}

func text(ops []porcupine.Operation) (s string) {
	for _, op := range ops {
		s += fmt.Sprintf("%d … %d %s %+v\n", op.Call, op.Return, describeCopy(op.Input.(CopyInput), op.Output.(CopyOutput)), op.Input)
	}
	return s
}

// Neither checker rejects what a correct owner did (INV-06).
func TestOraclesAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := history(t)
		p, i := both(t, g.ops)
		require.True(t, p && i, "porcupine %t, intervals %t:\n%s", p, i, text(g.ops))
	})
}

// Both reject a history into which something was put that no correct owner does, and agree on every other one.
func TestOraclesDetect(t *testing.T) {
	// After a crash and with a new nonce, nothing that came before can excuse what follows.
	lease := func(g *generator) int64 {
		g.now += 10
		g.instant(OpCrash, 0)
		g.nonce++
		g.instant(OpReserve, g.nonce)
		return g.nonce
	}
	call := func(g *generator, op CopyOp, nonce, after int64, out CopyOutput) {
		in := CopyInput{Op: op, Nonce: nonce, Call: g.now + after, Ret: g.now + after + 1}
		in.ExpiryLow, in.ExpiryHigh = in.Call+visible-slop, in.Ret+visible+slop
		g.ops = append(g.ops, porcupine.Operation{Input: in, Call: in.Call, Output: out, Return: in.Ret})
	}
	breaks := map[string]func(g *generator){
		"leased while leased": func(g *generator) { lease(g); g.nonce++; g.instant(OpReserve, g.nonce) },
		"leased after it was settled": func(g *generator) {
			call(g, OpAck, lease(g), 1, OK)
			g.now += 5
			g.nonce++
			g.instant(OpReserve, g.nonce)
		},
		"an ack of a lapsed lease": func(g *generator) { call(g, OpAck, lease(g), visible+slop+1, OK) },
		"a live handle refused":    func(g *generator) { call(g, OpAck, lease(g), 1, Gone) },
		"an extended lease refused": func(g *generator) {
			n := lease(g)
			call(g, OpExtend, n, visible-slop-2, OK)
			call(g, OpNack, n, visible+slop+3, Gone)
		},
		"acked twice":        func(g *generator) { n := lease(g); call(g, OpAck, n, 1, OK); call(g, OpAck, n, 3, OK) },
		"acked after a nack": func(g *generator) { n := lease(g); call(g, OpNack, n, 1, OK); call(g, OpAck, n, 3, OK) },
		"an ack with a nonce that was never given": func(g *generator) { lease(g); call(g, OpAck, g.nonce+1, 1, OK) },
		"an ack of a lease that a crash ended": func(g *generator) {
			n := lease(g)
			g.now++
			g.instant(OpCrash, 0)
			call(g, OpAck, n, 1, OK)
		},
		"never settled": func(g *generator) {
			g.instant(OpRelease, lease(g))
			g.now++
			g.instant(OpFinal, 0)
		},
		"given back under another nonce": func(g *generator) { g.instant(OpRelease, lease(g)+1) },
		"given back after it was acked":  func(g *generator) { n := lease(g); call(g, OpAck, n, 1, OK); g.now += 5; g.instant(OpRelease, n) },
	}
	for name, breakIt := range breaks { // order-free: subtests
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g := &generator{t: t}
				for range rapid.IntRange(1, 12).Draw(t, "steps") {
					g.step()
				}
				breakIt(g)
				p, i := both(t, g.ops)
				require.False(t, p || i, "porcupine %t, intervals %t:\n%s", p, i, text(g.ops))
			})
		})
	}
}

// The two agree on histories of any kind, and do not say the same of all.
func TestOraclesAgree(t *testing.T) {
	legal, illegal := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := history(t)
		if len(g.ops) == 0 {
			return
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") { // something is changed, which may or may not be wrong
			op := &g.ops[rapid.IntRange(0, len(g.ops)-1).Draw(t, "op")]
			in := op.Input.(CopyInput)
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				if in.Op == OpAck || in.Op == OpExtend || in.Op == OpNack {
					op.Output = CopyOutput(rapid.IntRange(0, 1).Draw(t, "out"))
					if op.Return > math.MaxInt64/4 {
						op.Return = in.Call + 3
						in.Ret = op.Return
					}
				}
			case 1:
				if in.Op != OpReserve {
					in.Nonce = rapid.Int64Range(1, g.nonce+1).Draw(t, "nonce")
				}
			case 2:
				if in.Op == OpAck || in.Op == OpExtend || in.Op == OpNack {
					d := rapid.Int64Range(0, 20).Draw(t, "later")
					in.Call, op.Call = in.Call+d, op.Call+d
					if op.Return < math.MaxInt64/4 {
						in.Ret, op.Return = in.Ret+d, op.Return+d
					}
				}
			case 3:
				in.ExpiryLow += 5
				in.ExpiryHigh += 5
			}
			op.Input = in
		}
		p, i := both(t, g.ops)
		require.Equal(t, p, i, "porcupine %t, intervals %t:\n%s", p, i, text(g.ops))
		if p {
			legal++
		} else {
			illegal++
		}
	})
	require.Positive(t, legal)
	require.Positive(t, illegal)
}
