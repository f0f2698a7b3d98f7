package check

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/wal"
)

// WAL-17, WAL-18: what a recovery must find of the checkpoint, after each way of losing hold of it.
func TestCheckpointDemanded(t *testing.T) {
	broken := errors.New("EIO")
	stored := func(seq uint64) wal.Event { return wal.CheckpointStored{Seq: seq} }
	synced := func(seq uint64) wal.Event { return wal.CheckpointSynced{Seq: seq} }
	for name, c := range map[string]struct {
		events []wal.Event
		end    func(s *walShadow)
		least  uint64
	}{
		"process died":               {[]wal.Event{stored(3), synced(3), stored(5)}, func(s *walShadow) { s.crashed(false) }, 5},
		"power lost":                 {[]wal.Event{stored(3), synced(3), stored(5)}, func(s *walShadow) { s.crashed(true) }, 3},
		"stopped":                    {[]wal.Event{stored(3), synced(3), stored(5), synced(5)}, func(*walShadow) {}, 5},
		"sync failed":                {[]wal.Event{stored(3), synced(3), stored(5), wal.CheckpointSynced{Seq: 5, Err: broken}}, func(s *walShadow) { s.crashed(false) }, 3},
		"sync failed, stored since":  {[]wal.Event{stored(3), wal.CheckpointSynced{Seq: 3, Err: broken}, stored(5)}, func(s *walShadow) { s.crashed(false) }, 5},
		"store failed":               {[]wal.Event{stored(3), wal.CheckpointStored{Seq: 5, Err: broken}}, func(s *walShadow) { s.crashed(false) }, 3},
		"a life that did not open":   {[]wal.Event{stored(3), synced(3), stored(5)}, func(s *walShadow) { s.crashed(false); s.began(); s.crashed(false) }, 3},
		"a log that could not open":  {[]wal.Event{stored(3), synced(3), stored(5)}, func(s *walShadow) { s.crashed(false); s.began() }, 3},
		"nothing but what was there": {nil, func(s *walShadow) { s.crashed(true) }, 1},
	} {
		for _, found := range []uint64{1, 2, 3, 4, 5} {
			s := newWALShadow()
			s.began()
			require.NoError(t, s.see(wal.Recovered{First: 1, Next: 1, Checkpoint: 1}, 0))
			require.NoError(t, s.see(wal.BatchSynced{First: 1, Next: 7}, 0))
			for seq := uint64(1); seq < 7; seq++ {
				s.dispatched(seq)
			}
			for _, v := range c.events {
				require.NoError(t, s.see(v, 0))
			}
			c.end(&s)
			s.began()
			err := s.see(wal.Recovered{First: 1, Next: 7, Checkpoint: found}, 0)
			require.Equal(t, found < c.least, err != nil, "%s: found %d: %v", name, found, err)
		}
	}
}
