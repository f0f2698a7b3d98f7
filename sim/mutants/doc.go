// Package mutants keeps known ways of being wrong as small patches, and measures whether the simulator finds
// them.
//
// A patch in this folder re-introduces one bug into the production source. Its header says what an observer
// would see, which rule it breaks and which check is expected to catch it:
//
//	mutant: BUG-99 the committer writes the anchor slot
//	symptom: after a power loss the frontier falls back to consumer.offset
//	rule: COM-14
//	expect: INV-12 INV-09 INV-11
//	profile: big (optional: the kind of world that shows it soonest)
//
// What no simulated world can show, such as a bug of another operating system's disk or of a warning, names instead the
// tests that must fail:
//
//	test: ./committer TestFlipWaitsForTheFlush
//
// [Mutant.Overlay] applies it to copies of the files it names: the lines may have moved, but a patch whose lines
// are not there any more is stale and an error. The copies replace the originals in a build with "go build -overlay", so that production source
// never holds a switch for a bug.
package mutants
