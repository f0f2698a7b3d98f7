package wal

import (
	"fmt"
	"time"
)

// Options tune a log. The zero value of a field means its default.
type Options struct {
	// SegmentBytes is the size at which a segment file ends and the next begins. A record that is larger
	// gets a segment of its own. Default 64 MiB.
	SegmentBytes int64
	// BatchBytes bounds what is staged for the next write while another is under way; appends beyond it
	// wait. One Append that is larger is staged when nothing else is. Default 4 MiB.
	BatchBytes int
	// CheckpointSync is the longest time for which a stored checkpoint stays unsynced. Default 250 ms.
	CheckpointSync time.Duration
	// IdleRollBytes is the size from which the active segment is rolled once every record in it is below the
	// durable checkpoint, so that its space can be reclaimed. Default 1 MiB.
	IdleRollBytes int64
	// Preallocate has the file of the next segment made ahead, in the background, as zeros that are on the disk, so
	// that an append changes neither its size nor its blocks. Where such changes need the file system's journal,
	// a sync is the quicker without them: on ext4 on a virtual disk appends of 1 to 16 writers took 0.5 to 0.7 of the
	// time, preparing included, and those of 64 about 0.6 to 1 (BenchmarkGroupCommit). It costs a second write of every byte and twice
	// SegmentBytes of disk space, used or not. It changes only how
	// files are written: either kind is read whatever is set.
	Preallocate bool
	// OnDurable is called after the durable end advanced, by the task that syncs, which can be one that appends. It must not block.
	OnDurable func()
	// Event is told what the log does, from the task that does it, with no lock held. It must not block or
	// call the log.
	Event func(Event)
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 4 << 20
	}
	if o.CheckpointSync == 0 {
		o.CheckpointSync = 250 * time.Millisecond
	}
	if o.IdleRollBytes == 0 {
		o.IdleRollBytes = 1 << 20
	}
	if o.OnDurable == nil {
		o.OnDurable = func() {}
	}
	return o
}

// Validate returns an error that names the first field that makes no sense.
func (o Options) Validate() error {
	switch {
	case o.SegmentBytes < 0:
		return fmt.Errorf("wal: SegmentBytes is %d", o.SegmentBytes)
	case o.BatchBytes < 0:
		return fmt.Errorf("wal: BatchBytes is %d", o.BatchBytes)
	case o.CheckpointSync < 0:
		return fmt.Errorf("wal: CheckpointSync is %v", o.CheckpointSync)
	case o.IdleRollBytes < 0:
		return fmt.Errorf("wal: IdleRollBytes is %d", o.IdleRollBytes)
	}
	return nil
}
