package model

import (
	"slices"

	"github.com/anishathalye/porcupine"
)

// The interval checker decides the same question as porcupine with the specification Copy, in another way: it does not search for an
// order of all operations. What only the owner does (reserve, give back, crash, and the demand at the end) happened at known
// instants, which cut the history into epochs: from a reservation to the next such instant. A client's operation can change
// something only in the epoch of its own nonce. So each epoch is judged by its own few operations: which of the three ends it can
// have had, lease kept, nacked or acked, and whether one of them fits what follows.

// never is after the end of every world.
const never = int64(1) << 62

// epochMost is how many operations of one nonce are judged; their orders are searched.
const epochMost = 20

// Ordered gives the operations of a history times that tell their order: what happened at one instant on the owner's side keeps the
// order in which it was recorded, and a client's operation overlaps all that happened at the instants of its call and return.
// The specification does not read these times but those in the inputs.
func Ordered(ops []porcupine.Operation) []porcupine.Operation {
	const room = 1 << 10 // instants of one nanosecond
	ordered := slices.Clone(ops)
	at, rank := int64(-1), int64(0)
	for i := range ordered {
		op := &ordered[i]
		if isInstant(op) {
			if op.Call != at {
				at, rank = op.Call, 0
			}
			rank++
			op.Call = op.Call*room + rank
			op.Return = op.Call
			continue
		}
		op.Call *= room
		if op.Return < never/room {
			op.Return = op.Return*room + room - 1
		} else {
			op.Return = never
		}
	}
	return ordered
}

func isInstant(op *porcupine.Operation) bool {
	return op.Input.(CopyInput).Op.byOwner()
}

// byOwner reports whether the operation is one of the owner, which happens at an instant, and not a client's.
func (op CopyOp) byOwner() bool { return op != OpAck && op != OpExtend && op != OpNack }

// Linearizable reports whether the history of one copy is one that [Copy] allows. The operations are those that [Ordered] returns.
// decided is false when a nonce has more operations than are judged.
func Linearizable(ops []porcupine.Operation) (legal, decided bool) {
	var instants []porcupine.Operation
	byNonce := map[int64][]porcupine.Operation{}
	for _, op := range ops {
		if isInstant(&op) {
			instants = append(instants, op)
			continue
		}
		nonce := op.Input.(CopyInput).Nonce
		if byNonce[nonce] = append(byNonce[nonce], op); len(byNonce[nonce]) > epochMost {
			return false, false
		}
	}
	return followEpochs(instants, byNonce), true
}

// followEpochs takes the state of the copy from instant to instant.
func followEpochs(instants []porcupine.Operation, byNonce map[int64][]porcupine.Operation) bool {
	slices.SortStableFunc(instants, func(a, b porcupine.Operation) int {
		switch {
		case a.Call < b.Call:
			return -1
		case a.Call > b.Call:
			return 1
		}
		return 0
	})
	reserved := map[int64]bool{}
	state := state{free: true}
	for i := range instants {
		in := instants[i].Input.(CopyInput)
		if !state.step(in) {
			return false
		}
		if in.Op != OpReserve {
			continue
		}
		if reserved[in.Nonce] { // nonces are never used twice, which INV-05 checks; epochs could not be told apart
			return false
		}
		reserved[in.Nonce] = true
		e := epoch{from: instants[i].Call, to: never, low: in.ExpiryLow, high: in.ExpiryHigh, ops: byNonce[in.Nonce]}
		if i+1 < len(instants) {
			e.to = instants[i+1].Call
		}
		was := state.was
		state = e.after()
		state.nonce, state.was = in.Nonce, was || state.settled
		if !state.possible() {
			return false
		}
	}
	for nonce, ops := range byNonce { // order-free: each on its own
		if !reserved[nonce] && slices.ContainsFunc(ops, func(op porcupine.Operation) bool { return op.Output.(CopyOutput) == OK }) {
			return false
		}
	}
	return true
}

// state is what a copy can be before an instant.
type state struct {
	free, settled bool
	was           bool   // it can have been settled at some time
	leases        []held // under the nonce of the last reservation; that it is one of several has to do with its expiry
	nonce         int64
}

// held is when a lease ends at the earliest.
type held struct{ low int64 }

func (s *state) possible() bool { return s.free || s.settled || len(s.leases) > 0 }

// step takes the state over an instant; for a reservation it only checks that there can be one.
func (s *state) step(in CopyInput) bool {
	switch in.Op {
	case OpReserve:
		return s.free || slices.ContainsFunc(s.leases, func(l held) bool { return in.Ret >= l.low })
	case OpRelease:
		if len(s.leases) == 0 || s.nonce != in.Nonce {
			return false
		}
		*s = state{free: true, was: s.was}
	case OpCrash: // leases are forgotten, and an ack may be, and come back
		*s = state{free: true, settled: s.was, was: s.was}
	case OpFinal:
		if !s.settled {
			return false
		}
		*s = state{settled: true, was: true}
	}
	return true
}

// epoch is what follows a reservation, up to the next instant.
type epoch struct {
	from, to  int64
	low, high int64 // of the expiry
	ops       []porcupine.Operation
}

// after returns what the copy can be at the end of the epoch: it places the operations of its nonce one after the other, each
// within the epoch, or before or after it where they change nothing.
func (e *epoch) after() state {
	if len(e.ops) == 0 {
		return state{leases: []held{{e.low}}}
	}
	var end state
	seen := map[placed]bool{}
	var place func(p placed)
	place = func(p placed) {
		if seen[p] {
			return
		}
		seen[p] = true
		if p.done == 1<<len(e.ops)-1 {
			switch p.phase {
			case leased:
				end.leases = append(end.leases, held{p.low})
			case settled:
				end.settled = true
			case free:
				end.free = true
			}
			return
		}
		for i := range e.ops {
			if p.done>>i&1 == 0 && e.next(p.done, i) {
				e.put(p, i, place)
			}
		}
	}
	place(placed{phase: leased, low: e.low, high: e.high})
	return end
}

// placed is a partial order of the operations of an epoch.
type placed struct {
	done      uint64 // bit i: operation i
	phase     uint8
	low, high int64
}

// next reports whether operation i may come next: none that is left ended before it began.
func (e *epoch) next(done uint64, i int) bool {
	for j := range e.ops {
		if j != i && done>>j&1 == 0 && e.ops[j].Return < e.ops[i].Call {
			return false
		}
	}
	return true
}

// put continues with operation i at each place that it can have.
func (e *epoch) put(p placed, i int, then func(placed)) {
	op := e.ops[i]
	in, out := op.Input.(CopyInput), op.Output.(CopyOutput)
	inside := op.Return > e.from && op.Call < e.to
	outside := op.Call < e.from || op.Return > e.to
	p.done |= 1 << i
	if out == Unknown || out == Gone && (outside || p.phase != leased || in.Ret >= p.low) {
		then(p)
	}
	if out == Gone || !inside || p.phase != leased || in.Call >= p.high {
		return
	}
	switch in.Op {
	case OpAck:
		p.phase = settled
	case OpNack:
		p.phase = free
	case OpExtend:
		p.low, p.high = in.ExpiryLow, in.ExpiryHigh
	}
	then(p)
}
