package check

import (
	"narad/sim/model"
	"narad/wal"
)

// walShadow is what the ingress log must look like (INV-03).
type walShadow struct {
	durable     uint64          // every record below was synced
	acceptedEnd uint64          // one past the highest record that got a 202
	confirmed   map[uint64]bool // committed, at or above prefix
	prefix      uint64          // every record below is committed
	stored      uint64          // checkpoint in the page cache, as far as is known: the file has this one or a later one
	storedAt    int64
	synced      uint64          // checkpoint on the disk
	opened      bool            // in this life
	sent        map[uint64]bool // records whose commit was confirmed in this life
	recoveredAt uint64          // checkpoint that this life began with
}

// newWALShadow returns the shadow of an empty log, whose first record will be number 1.
func newWALShadow() walShadow {
	return walShadow{confirmed: map[uint64]bool{}, sent: map[uint64]bool{}, durable: 1, acceptedEnd: 1, prefix: 1, stored: 1, synced: 1, opened: true}
}

// began is told that a life begins. One before it that never opened the log may have failed at syncing the checkpoint,
// without a word of it; then the page cache may have gone back.
func (s *walShadow) began() {
	if !s.opened {
		s.stored = s.synced
	}
	s.opened = false
	clear(s.sent)
}

// crashed is told that the process died.
func (s *walShadow) crashed(power bool) {
	if power {
		s.stored = s.synced
	}
}

// accepted is told that a produce is about to be answered 202.
func (s *walShadow) accepted(seq uint64) error {
	s.acceptedEnd = max(s.acceptedEnd, seq+1)
	if seq >= s.durable { // WAL-01, WAL-02
		return model.Violate("INV-03", "record %d got a 202, the log is synced up to %d", seq, s.durable)
	}
	return nil
}

func (s *walShadow) dispatched(seq uint64) {
	s.confirmed[seq] = true
	for s.confirmed[s.prefix] {
		delete(s.confirmed, s.prefix)
		s.prefix++
	}
}

// outOfOrder reports whether a record above one that is not committed is.
func (s *walShadow) outOfOrder() bool { return len(s.confirmed) > 0 }

func (s *walShadow) see(v wal.Event, now int64) error {
	switch v := v.(type) {
	case wal.Recovered:
		return s.recovered(v)
	case wal.BatchSynced:
		if v.Err == nil {
			s.durable = max(s.durable, v.Next)
		}
	case wal.CheckpointStored:
		if v.Err != nil {
			return nil
		}
		if v.Seq > s.prefix { // WAL-15, WAL-19
			return model.Violate("INV-03", "checkpoint %d passes record %d, whose commit is not confirmed", v.Seq, s.prefix)
		}
		s.stored, s.storedAt = v.Seq, now
	case wal.CheckpointSynced:
		if v.Err == nil {
			s.synced = max(s.synced, v.Seq)
		} else {
			s.stored = s.synced // the page cache may have gone back to it, until the next store
		}
	case wal.SegmentRemoved:
		if v.Err == nil && v.Next > s.synced { // WAL-06, WAL-07: it is in its partition by then
			return model.Violate("INV-03", "records up to %d were removed, the durable checkpoint is %d", v.Next, s.synced)
		}
	}
	return nil
}

func (s *walShadow) recovered(v wal.Recovered) error {
	switch {
	case v.Next < s.acceptedEnd:
		return model.Violate("INV-02", "the recovered ingress log ends at %d, record %d had got a 202", v.Next, s.acceptedEnd-1)
	case v.Next < s.durable: // what was synced, or counted at an open
		return model.Violate("INV-03", "the recovered ingress log ends at %d, it was durable up to %d", v.Next, s.durable)
	case v.Checkpoint > s.prefix:
		return model.Violate("INV-03", "recovered checkpoint %d passes record %d, whose commit is not confirmed", v.Checkpoint, s.prefix)
	case v.Checkpoint < s.stored: // WAL-17, WAL-18
		return model.Violate("INV-03", "the recovered checkpoint is %d, it had been %d", v.Checkpoint, s.stored)
	case v.First > v.Checkpoint:
		return model.Violate("INV-03", "the recovered ingress log begins at %d, its checkpoint is %d", v.First, v.Checkpoint)
	}
	s.durable, s.opened, s.recoveredAt = v.Next, true, v.Checkpoint
	s.stored, s.synced = v.Checkpoint, max(s.synced, v.Checkpoint) // opening makes all of it durable
	return nil
}
