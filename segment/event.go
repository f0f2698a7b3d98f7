package segment

import "time"

// Event is something that happened to a log, told to Options.Event. Metrics, logs and traces listen there.
type Event interface{ event() }

type (
	// Recovered tells that Open succeeded.
	Recovered struct {
		Next    int64 // the high watermark
		Oldest  int64 // the lowest offset held
		TailCut int64 // bytes of a torn tail cut off
		Gap     int64 // offsets found unreadable in the newest segment
	}
	// Committed tells that the records with offsets in [Base, Next) are stored, verified and visible.
	Committed struct {
		Base, Next int64
		Records    int
		Bytes      int64         // of frames
		StampMs    int64         // commit time of the records, unix milliseconds
		Took       time.Duration // from the first write to the last read-back
		Syncs      int
		SyncTook   time.Duration // of these syncs, together
	}
	// CommitFailed tells that a commit was not confirmed and what of it was written is hidden.
	CommitFailed struct{ Err error }
	// Rolled tells that a new segment was begun at offset Base; older ones are immutable from now on.
	Rolled struct{ Base int64 }
	// Removed tells that retention removed the oldest segments; Oldest is the lowest offset from now on. Their files go
	// a little later.
	Removed struct {
		Segments int
		Records  int64 // offsets
		Bytes    int64
		Oldest   int64
		LastMs   int64 // commit time of the newest of the records, unix milliseconds
	}
	// Poisoned tells that the log takes no more commits until it is reopened.
	Poisoned struct{ Err error }
	// Closed tells that the log was closed. Nothing follows it but what overlapped the close.
	Closed struct{ Next int64 }
	// CorruptRead tells that a read found its offset permanently unreadable.
	CorruptRead struct {
		File   string
		At     int64 // position in the file, in bytes
		Offset int64
		Cause  error
	}
)

func (Recovered) event()    {}
func (Committed) event()    {}
func (CommitFailed) event() {}
func (Rolled) event()       {}
func (Removed) event()      {}
func (Poisoned) event()     {}
func (Closed) event()       {}
func (CorruptRead) event()  {}
