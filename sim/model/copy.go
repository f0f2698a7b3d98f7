package model

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// CopyOp is one thing that happened to a stored copy (topic, partition, offset).
type CopyOp uint8

// Operations on a copy.
const (
	OpReserve CopyOp = iota // the owner leased it; an instant, known from the owner
	OpAck                   // a client's calls, from its call to its return
	OpExtend
	OpNack
	OpRelease // the owner gave the lease back; an instant
	OpCrash   // the owner died; an instant
	OpFinal   // after the drain
)

// CopyInput is an operation with its times, since porcupine has no clock. All times are true time, in nanoseconds.
type CopyInput struct {
	Op        CopyOp
	Nonce     int64
	Call, Ret int64
	// ExpiryLow and ExpiryHigh bound when the lease that OpReserve takes, or OpExtend re-arms, ends.
	ExpiryLow, ExpiryHigh int64
}

// CopyOutput is what the caller learned.
type CopyOutput uint8

// Outputs.
const (
	OK CopyOutput = iota
	Gone
	Unknown // no answer: the operation took effect or not
)

type copyState struct {
	phase     uint8
	nonce     int64
	low, high int64 // when the lease ends at the earliest and at the latest
	was       bool  // settled once: a crash may undo that, and a later one undo the undoing
}

const (
	free uint8 = iota
	leased
	settled
)

// Copy is the sequential specification of one stored copy: free, leased, settled (INV-06).
//
//	reserve(n)  free, or leased and possibly expired          → leased(n)
//	ack(n)      leased(n) and possibly live: ok → settled; otherwise gone, no change
//	extend(n)   leased(n) and possibly live: ok, new expiry; otherwise gone
//	nack(n)     leased(n) and possibly live: ok → free; otherwise gone
//	crash       leased → free; settled stays or goes free (within INV-08 and INV-09, which are checked elsewhere); what was settled once
//	            may be so again, as a power loss can bring back a window that an earlier one had torn (INV-11)
//	final       settled
func Copy() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{copyState{}} },
		Step: func(state, input, output any) []any {
			in := input.(CopyInput)
			next := stepCopy(nil, state.(copyState), &in, output.(CopyOutput))
			states := make([]any, len(next))
			for i := range next {
				states[i] = next[i]
			}
			return states
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return describeCopy(in.(CopyInput), out.(CopyOutput)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s.(copyState)) },
	}).ToModel()
}

// stepCopy appends the states that an operation may lead to.
func stepCopy(next []copyState, s copyState, in *CopyInput, out CopyOutput) []copyState {
	switch in.Op {
	case OpReserve:
		if s.phase == free || s.phase == leased && in.Ret >= s.low {
			next = append(next, copyState{leased, in.Nonce, in.ExpiryLow, in.ExpiryHigh, s.was})
		}
	case OpRelease:
		if s.phase == leased && s.nonce == in.Nonce {
			next = append(next, copyState{was: s.was})
		}
	case OpCrash:
		if s.was {
			next = append(next, copyState{phase: settled, was: true})
		}
		next = append(next, copyState{was: s.was})
	case OpFinal:
		if s.phase == settled {
			next = append(next, s)
		}
	default:
		next = stepHandle(next, s, in, out)
	}
	return next
}

// stepHandle is an ack, extend or nack. One without an answer took effect or not (FAIL-06), and whatever is sent again settles once at
// most (FAIL-07).
func stepHandle(next []copyState, s copyState, in *CopyInput, out CopyOutput) []copyState {
	holds := s.phase == leased && s.nonce == in.Nonce
	if out != Gone && holds && in.Call < s.high {
		switch in.Op {
		case OpAck:
			next = append(next, copyState{phase: settled, was: true})
		case OpExtend:
			next = append(next, copyState{leased, s.nonce, in.ExpiryLow, in.ExpiryHigh, s.was})
		case OpNack:
			next = append(next, copyState{was: s.was})
		}
	}
	if out == Unknown || out == Gone && (!holds || in.Ret >= s.low) {
		next = append(next, s)
	}
	return next
}

func describeCopy(in CopyInput, out CopyOutput) string {
	op := [...]string{"reserve", "ack", "extend", "nack", "give back", "crash", "final"}[in.Op]
	result := [...]string{"ok", "gone", "no answer"}[out]
	if in.Op >= OpRelease || in.Op == OpReserve {
		return fmt.Sprintf("%s(%d)", op, in.Nonce)
	}
	return fmt.Sprintf("%s(%d) → %s", op, in.Nonce, result)
}
