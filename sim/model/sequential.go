package model

import "github.com/anishathalye/porcupine"

// Sequential judges a history in which no two operations overlap, given in the order in which they were recorded, before [Ordered]:
// it has one order only, so the specification [Copy] is stepped through it and nothing has to be searched. ok is false when some do
// overlap: then the answer says nothing.
func Sequential(ops []porcupine.Operation) (legal, ok bool) {
	for i := 1; i < len(ops); i++ {
		before, after := &ops[i-1], &ops[i]
		if before.Return > after.Call || before.Return == after.Call && !(isInstant(before) && isInstant(after)) {
			return false, false
		}
	}
	states := make([]any, 1, 4)
	states[0] = copyState{}
	var next []any
	for i := range ops {
		next = next[:0]
		for _, s := range states {
			next = append(next, stepCopy(s.(copyState), ops[i].Input.(CopyInput), ops[i].Output.(CopyOutput))...)
		}
		if states, next = next, states; len(states) == 0 {
			return false, true
		}
	}
	return true, true
}
