package model

import "github.com/anishathalye/porcupine"

// CopyOperation is an operation on a copy and its outcome. Histories are kept as these, which point to nothing and are a third of the size of
// those of porcupine: most are never handed to it.
type CopyOperation struct {
	CopyInput
	Client int32
	Output CopyOutput
}

// Operations returns a history for porcupine and [Linearizable].
func Operations(history []CopyOperation) []porcupine.Operation {
	ops := make([]porcupine.Operation, len(history))
	for i, op := range history {
		ops[i] = porcupine.Operation{ClientId: int(op.Client), Input: op.CopyInput, Call: op.Call, Output: op.Output, Return: op.Ret}
	}
	return ops
}

// Sequential judges a history in which no two operations overlap, given in the order in which they were recorded:
// it has one order only, so the specification [Copy] is stepped through it and nothing has to be searched. ok is false when some do
// overlap: then the answer says nothing.
func Sequential(ops []CopyOperation) (legal, ok bool) {
	for i := 1; i < len(ops); i++ {
		before, after := &ops[i-1], &ops[i]
		if before.Ret > after.Call || before.Ret == after.Call && !(before.Op.byOwner() && after.Op.byOwner()) {
			return false, false
		}
	}
	states := make([]copyState, 1, 4)
	next := make([]copyState, 0, 4)
	for i := range ops {
		next = next[:0]
		for _, s := range states {
			next = stepCopy(next, s, &ops[i].CopyInput, ops[i].Output)
		}
		if states, next = next, states; len(states) == 0 {
			return false, true
		}
	}
	return true, true
}
