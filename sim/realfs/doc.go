// Package realfs crashes the engine on real files: real goroutines, the real clock, the operating system's file system.
//
//	life       a real engine in a real directory, clients on goroutines; a recorder (package recorder) repeats every change
//	           on a simulated disk, a [Ledger] keeps what clients were told and what the engine said
//	cut        at some changes the record and the ledger are copied, at one instant
//	image      what a crash at the cut may leave: the page cache after the death of the process, an admissible part of
//	           the unsynced after a loss of power; all of them where they are few, otherwise a sample
//	judgement  the image is made a real directory, a real engine opens it, and what it does is held against the ledger
//	next life  one of the images, with its ledger, is where the next life begins
//
// The simulator decides every interleaving and so can repeat it; here goroutines and disks do as they like. What is the same is
// what may be left behind and what must be true of it:
//
//	INV-01  what is delivered was produced, byte for byte
//	INV-02  what was accepted and never acked is delivered; a topic whose creation was answered is there
//	INV-04  every offset that was confirmed is there and holds the message that it held
//	INV-07  every offset is either settled in the recovered state or delivered, not both
//	INV-08  after the death of the process: what the last good window write covered is settled
//	INV-09  after a loss of power: what the last good writeout covered is settled
//	INV-10  after a graceful stop every ack that returned is settled, and nothing is delivered twice
//	INV-11  nothing is settled that nobody tried to ack
//
// Beside that, INV-08 and INV-09 are checked by the clock, whatever the committer says of its writes: a kill undoes no ack that had
// returned before the last tick that ended began, a loss of power none that is older than D + T and the ticks and delays that
// there really were, those of a machine that wakes sleepers late included.
//
// Files: payload.go (messages), ledger.go, facts.go (a ledger at a cut), session.go (one life), cut.go (images), directory.go (images
// as directories), judge.go, round.go (lives of random clients).
package realfs
