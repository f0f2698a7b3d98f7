package committer

import (
	"fmt"
	"sort"

	"narad/vfs"
)

// Report says how a state was recovered, and what in it deserves a loud log line.
type Report struct {
	Slots Slots
	// OffsetFrontier is what consumer.offset holds, -1 when it counts as absent.
	OffsetFrontier int64
	// OffsetErr says why an existing consumer.offset counts as absent: a [CorruptError].
	OffsetErr error
	// Frontier is the larger frontier of both files, before clamping.
	Frontier int64
	// Clamped reports that something on the disk was at or above the high watermark: the log's tail is gone
	// although its records were settled. New records will get those offsets, so the files must be made to
	// hold the clamped state, by [Reseed], before the log accepts any.
	Clamped bool
	// Discarded counts the offsets above the frontier that the high watermark cut.
	Discarded int
}

// Recover reads what is settled in the partition whose directory is dir, from both state files: the larger
// frontier, clamped to hw-1 where hw is the high watermark (exclusive), and the offsets of the newest usable
// slot above it. It changes nothing. Slots of another identity never count.
//
// Contents that are torn, foreign or impossible count as absent and appear in the report; an error means
// that the disk did not answer, so that what is settled is unknown.
func Recover(dir vfs.Dir, identity uint64, hw int64) (State, Report, error) {
	rep := Report{}
	var err error
	if rep.Slots, err = ReadSlots(dir, identity); err != nil {
		return State{}, rep, err
	}
	if rep.OffsetFrontier, rep.OffsetErr, err = readOffset(dir); err != nil {
		return State{}, rep, err
	}
	s := State{Committed: rep.OffsetFrontier, Dir: dir.ID()}
	if n := rep.Slots.Newest; n != noSlot {
		s.Committed = max(s.Committed, rep.Slots.Slot[n].State.Committed)
		s.Ahead = rep.Slots.Slot[n].State.Ahead
	}
	rep.Frontier = s.Committed
	rep.settle(&s, hw)
	return s, rep, nil
}

// settle clamps s below hw and brings it into its normal form.
func (rep *Report) settle(s *State, hw int64) {
	if s.Committed >= hw {
		s.Committed, rep.Clamped = hw-1, true
	}
	kept := sort.Search(len(s.Ahead), func(i int) bool { return s.Ahead[i] >= hw })
	rep.Discarded = len(s.Ahead) - kept
	rep.Clamped = rep.Clamped || rep.Discarded > 0
	s.Ahead = normalize(s, s.Ahead[:kept])
}

// normalize drops offsets that the frontier passed and advances it over those that follow it.
func normalize(s *State, ahead []int64) []int64 {
	for len(ahead) > 0 && ahead[0] <= s.Committed+1 {
		s.Committed = max(s.Committed, ahead[0])
		ahead = ahead[1:]
	}
	if len(ahead) == 0 {
		return nil
	}
	return append([]int64(nil), ahead...)
}

// Reseed makes the state files in dir hold exactly s, durably. It is for a partition without a shard: after
// a recovery that had to clamp, before the log accepts records again, and for the copy that a move installs. The
// caller has the directory's turn (Options.Naming). After an error it must be called again before the partition is used: the files may show s
// without being durable.
//
// Both files are replaced atomically. A crash in between leaves the old contents of one, which a recovery
// that had to clamp before must clamp again; so after a crash Recover and Reseed run again.
func Reseed(dir vfs.Dir, identity uint64, s State) error {
	slots, err := ReadSlots(dir, identity)
	if err != nil {
		return err
	}
	r := record{identity: identity, seq: 1, state: s}
	if slots.Newest != noSlot {
		r.seq += slots.Slot[slots.Newest].Sequence
	}
	data, _ := appendRecord(nil, r)
	data = append(data, make([]byte, aheadSize-len(data))...)
	if err := vfs.ReplaceFile(dir, AheadFile, data); err != nil {
		return fmt.Errorf("committer: replace %s: %w", AheadFile, err)
	}
	if err := vfs.ReplaceFile(dir, OffsetFile, encodeOffset(s.Committed)); err != nil {
		return fmt.Errorf("committer: replace %s: %w", OffsetFile, err)
	}
	return nil
}
