// Package shrink makes failing runs small and tells what made them fail. It knows worlds only as functions of an
// [Input]: a sequence of choices and a few bounds.
//
//	S1  Every result it hands back was run, and failed with the fingerprint of the first run.
//	S2  Its answer is a function of the input and the number of runs it may make; workers only make it faster. A
//	    budget of time may cut it short anywhere.
//
// [Shrink] lowers bounds, leaves out calls, draws other tails, cuts, zeroes and deletes blocks, and lowers single choices, as long as the
// run keeps failing. [Neighbours] varies one decision at a time and tells for which the failure disappears. [Compare] runs two
// worlds in step and stops at the first difference.
//
// Files: shrink.go (the search), pass.go (one file for all ways to make an input smaller), label.go (names of choices by where they
// are drawn), neighbours.go, compare.go.
package shrink
