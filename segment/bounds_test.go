package segment

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

var goldenBounds = Bounds{Identity: 0x0123456789abcdef, Oldest: 4711, End: 9000, HasCRC: true, CRC: 0xdeadbeef}

func boundsCell(b Bounds) []byte {
	cell := make([]byte, BoundsCellSize)
	PutBounds(cell, b)
	return cell
}

// The format is frozen: these bytes are read and written for ever.
func TestBoundsGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/bounds.hex")
	require.NoError(t, err)
	want, err := hex.DecodeString(string(text[:len(text)-1]))
	require.NoError(t, err)
	require.Equal(t, want, boundsCell(goldenBounds))
	b, err := ParseBounds(want)
	require.NoError(t, err)
	require.Equal(t, goldenBounds, b)
}

// Every bit counts, and no cell that is cut short is taken.
func TestBoundsDamage(t *testing.T) {
	cell := boundsCell(goldenBounds)
	for i := range len(cell) * 8 {
		cell[i/8] ^= 1 << (i % 8)
		_, err := ParseBounds(cell)
		require.Error(t, err, "bit %d", i)
		cell[i/8] ^= 1 << (i % 8)
	}
	for n := range len(cell) {
		_, err := ParseBounds(cell[:n])
		require.ErrorIs(t, err, record.ErrShort)
	}
}

// Contradictions are found under a good checksum too.
func TestBoundsContradictions(t *testing.T) {
	for _, b := range []Bounds{{Oldest: -1}, {Oldest: 2, End: 1}, {End: -1}} {
		_, err := ParseBounds(boundsCell(b))
		require.ErrorIs(t, err, record.ErrSequence)
	}
	cell := boundsCell(goldenBounds)
	for _, flag := range []uint16{0, 2, 257} { // 0: with a checksum
		binary.BigEndian.PutUint16(cell[10:], flag)
		binary.BigEndian.PutUint32(cell[40:], crc32.Checksum(cell[:40], castagnoli))
		_, err := ParseBounds(cell)
		require.ErrorIs(t, err, record.ErrSequence)
	}
}

// The larger numbers of both cells count, and a cell of another log counts for nothing.
func TestBoundsOfTwoCells(t *testing.T) {
	file := make([]byte, boundsFileSize)
	older, newer := goldenBounds, goldenBounds
	older.Oldest, newer.End, newer.CRC = 5000, 9001, 1
	PutBounds(file, newer)
	PutBounds(file[BoundsCellAt:], older)
	s := CombineBounds(file, goldenBounds.Identity)
	require.Equal(t, StoredBounds{Bounds: Bounds{goldenBounds.Identity, 5000, 9001, true, 1}, Found: true}, s)
	s = CombineBounds(file[:boundsFileSize-1], goldenBounds.Identity)
	require.Equal(t, newer, s.Bounds)
	require.ErrorIs(t, s.Cells[1], record.ErrShort)
	s = CombineBounds(file, 1)
	require.Equal(t, Bounds{Identity: 1}, s.Bounds)
	require.ErrorIs(t, s.Cells[0], errOtherLog)
}

func FuzzParseBounds(f *testing.F) {
	f.Add(boundsCell(goldenBounds))
	f.Add(boundsCell(Bounds{}))
	f.Fuzz(func(t *testing.T, cell []byte) {
		b, err := ParseBounds(cell)
		if err != nil && len(cell) >= BoundsCellSize { // let the fuzzer past the checksum
			binary.BigEndian.PutUint32(cell[40:], crc32.Checksum(cell[:40], castagnoli))
			b, err = ParseBounds(cell)
		}
		if err != nil {
			return
		}
		require.Equal(t, cell[:BoundsCellSize], boundsCell(b))
		require.LessOrEqual(t, b.Oldest, b.End)
	})
}

// eachShare runs a test of logs that hold the file bounds open, and of logs that open it for each write.
func eachShare(t *testing.T, test func(t *testing.T, files *FileShare)) {
	for _, files := range []*FileShare{nil, NewFileShare(0)} {
		t.Run(shareName(files), func(t *testing.T) { test(t, files) })
	}
}

func shareName(files *FileShare) string {
	if files == nil {
		return "bounds held"
	}
	return "bounds not held"
}

// boundedLog makes a log of several segments, of which retention has removed the first, and returns it closed.
func boundedLog(t testing.TB, dir vfs.Dir, files *FileShare) (o Options, next int64) {
	o = Options{SegmentBytes: 1000, Identity: 7, Files: files}
	l := open(t, dir, o)
	for ; next < 14; next++ {
		commit(t, l, next, rec(int(next), 300))
	}
	r, err := l.Read(4)
	require.NoError(t, err)
	l.mu.Lock()
	l.segs[0].last = r.CommittedMs - 1 // as if it were older
	l.mu.Unlock()
	_, err = l.Retain(r.CommittedMs)
	require.NoError(t, err)
	require.Positive(t, l.Oldest())
	require.NoError(t, l.Close())
	return o, next
}

// requireRefused opens a log that must be refused, untouched.
func requireRefused(t testing.TB, dir vfs.Dir, o Options, cause error) {
	t.Helper()
	before := dump(t, dir)
	_, err := Open(env.OS(), dir, o)
	var damage *DamageError
	require.ErrorAs(t, err, &damage)
	require.ErrorIs(t, err, cause)
	require.Equal(t, before, dump(t, dir))
	require.NoError(t, dir.Remove(BoundsFile)) // what the operator does to accept the loss
	l, err := Open(env.OS(), dir, o)
	require.NoError(t, err)
	_, err = l.Commit(recs(1000, 1, 10))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// LOG-07, LOG-09, INV-04: what lost durable frames at its end, its oldest file, or is another log's is refused, and nothing of it
// is changed. With the file bounds removed it opens.
func TestBoundsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		cause  error
		damage func(dir vfs.Dir, bases []int64)
	}{
		"last frame": {ErrEndMissing, func(dir vfs.Dir, bases []int64) {
			last := bases[len(bases)-1]
			b := fileBytes(t, dir, last)
			h, err := record.ParseFrameHeader(b)
			require.NoError(t, err)
			require.Greater(t, int64(len(b)), h.Size())
			writeFile(t, dir, fileName(last), b[:int64(len(b))-h.Size()])
		}},
		"all frames of the newest segment": {ErrEndMissing, func(dir vfs.Dir, bases []int64) {
			writeFile(t, dir, fileName(bases[len(bases)-1]), nil)
		}},
		"newest segment": {ErrEndMissing, func(dir vfs.Dir, bases []int64) {
			last := bases[len(bases)-1]
			require.NoError(t, dir.Remove(fileName(last)))
			require.NoError(t, dir.Remove(indexName(bases[len(bases)-2])))
		}},
		"oldest segment": {ErrOldestMissing, func(dir vfs.Dir, bases []int64) {
			require.NoError(t, dir.Remove(fileName(bases[0])))
		}},
		"every segment": {ErrOldestMissing, func(dir vfs.Dir, bases []int64) {
			for _, base := range bases {
				require.NoError(t, dir.Remove(fileName(base)))
				if err := dir.Remove(indexName(base)); err != nil {
					require.ErrorIs(t, err, fs.ErrNotExist)
				}
			}
		}},
		"newest segment of another log": {ErrOtherFrame, func(dir vfs.Dir, bases []int64) {
			last := bases[len(bases)-1]
			n := int(14 - last)
			other, _ := memDir(t)
			bigSegment(t, other.Dir, last, 1, n, 10)
			writeFile(t, dir, fileName(last), fileBytes(t, other.Dir, last))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachShare(t, func(t *testing.T, files *FileShare) {
				dir, _ := memDir(t)
				o, _ := boundedLog(t, dir.Dir, files)
				bases := logFiles(t, dir.Dir)
				require.Greater(t, len(bases), 2)
				c.damage(dir.Dir, bases)
				requireRefused(t, dir.Dir, o, c.cause)
			})
		})
	}
}

// The last frame of a sealed segment is checked when the newest one is empty.
func TestBoundsOfASealedEnd(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		dir, _ := memDir(t)
		o := Options{SegmentBytes: 100}
		l := open(t, dir, o)
		commit(t, l, 0, rec(0, 200))
		_, err := l.begin()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, []int64{0, 1}, logFiles(t, dir))
		if !indexed {
			require.NoError(t, dir.Dir.Remove(indexName(0)))
		}
		l = open(t, dir, o)
		require.NoError(t, l.Close())
		other, _ := memDir(t)
		bigSegment(t, other.Dir, 0, 1, 1, 10)
		writeFile(t, dir.Dir, fileName(0), fileBytes(t, other.Dir, 0))
		requireRefused(t, dir.Dir, o, ErrOtherFrame)
	}
}

// LOG-11, LOG-12: a last frame that rotted costs its offsets and no more, with bounds too.
func TestBoundsAtARottenFrame(t *testing.T) {
	dir, _ := memDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 100))
	commit(t, l, 1, rec(1, 100))
	require.NoError(t, l.Close())
	b := fileBytes(t, dir.Dir, 0)
	b[len(b)-1] ^= 1
	writeFile(t, dir.Dir, fileName(0), b)
	l = open(t, dir, Options{})
	require.Equal(t, int64(2), l.HighWatermark())
	requireRead(t, l, 0, rec(0, 100))
	_, err := l.Read(1)
	require.True(t, isCorrupt(err), "%v", err)
	l = reopen(t, l, dir, Options{})
	commit(t, l, 2, rec(2, 100))
}

// a file that is missing, older, damaged or of another log proves nothing, and is made good. A cell that is damaged leaves the
// other one.
func TestBoundsThatProveNothing(t *testing.T) {
	dir, _ := memDir(t)
	o, next := boundedLog(t, dir.Dir, nil)
	good, err := vfs.ReadFile(dir.Dir, BoundsFile, 1<<20)
	require.NoError(t, err)
	want := CombineBounds(good, o.Identity)
	require.Equal(t, next, want.End)
	try := func(b []byte) {
		t.Helper()
		writeFile(t, dir.Dir, BoundsFile, b)
		l := open(t, dir.Dir, o)
		require.Equal(t, next, l.HighWatermark())
		require.NoError(t, l.Close())
		now, err := vfs.ReadFile(dir.Dir, BoundsFile, 1<<20)
		require.NoError(t, err)
		require.Equal(t, want.Bounds, CombineBounds(now, o.Identity).Bounds)
	}
	for i := range good {
		b := append([]byte(nil), good...)
		b[i] ^= 0x10
		try(b)
	}
	for n := 0; n <= len(good); n += 11 {
		try(good[:n])
	}
	try(append(append([]byte(nil), good...), good...))
	try(boundsCell(Bounds{Identity: 8, Oldest: 100, End: 1000}))
	older := want.Bounds
	older.End, older.HasCRC, older.CRC = older.Oldest+1, false, 0
	try(boundsCell(older))
}

// RET-04: what an interrupted removal left goes when the log is opened, once it is durable that it may.
func TestBoundsFinishARemoval(t *testing.T) {
	eachShare(t, func(t *testing.T, files *FileShare) {
		dir, h := memDir(t)
		o, next := boundedLog(t, dir.Dir, files)
		oldest := logFiles(t, dir.Dir)[0]
		bigSegment(t, dir.Dir, 0, 1, int(oldest), 10) // it is back
		h.reset()
		l := open(t, dir, o)
		require.Equal(t, oldest, l.Oldest())
		require.Equal(t, next, l.HighWatermark())
		require.Equal(t, oldest, logFiles(t, dir.Dir)[0])
		synced, removed := -1, -1
		for i, op := range h.ops() {
			switch op {
			case "sync " + BoundsFile:
				synced = i
			case "remove " + fileName(0):
				removed = i
			}
		}
		require.True(t, 0 <= synced && synced < removed, "%v", h.ops())
	})
}

// RET-04: when the file cannot be written, retention goes on without it.
func TestRetainWithoutBounds(t *testing.T) {
	eachShare(t, func(t *testing.T, files *FileShare) {
		for _, op := range []string{"write", "sync"} {
			dir, h := memDir(t)
			o := Options{SegmentBytes: 100, Files: files}
			l := open(t, dir, o)
			for i := range 3 {
				commit(t, l, int64(i), rec(i, 200))
			}
			h.before = func(c call) error {
				if c.op == op && c.name == BoundsFile {
					return errDisk
				}
				return nil
			}
			_, err := l.Retain(NeverMs)
			require.NoError(t, err)
			require.Equal(t, int64(3), l.Oldest())
			_, err = dir.Stat(BoundsFile)
			require.ErrorIs(t, err, fs.ErrNotExist)
			l = reopen(t, l, dir, o)
			require.Equal(t, int64(3), l.Oldest())
			commit(t, l, 3, rec(3, 10))
		}
	})
}

// LOG-06, LOG-25: a commit that failed moves nothing, and neither does a sync that did.
func TestBoundsAfterAFailedCommit(t *testing.T) {
	eachShare(t, func(t *testing.T, files *FileShare) {
		for _, op := range []string{"write", "sync", "read"} {
			dir, h := memDir(t)
			l := open(t, dir, Options{Files: files})
			commit(t, l, 0, rec(0, 100))
			h.before = func(c call) error {
				if c.op == op && c.name == fileName(0) {
					return errDisk
				}
				return nil
			}
			_, err := l.Commit(recs(1, 1, 100))
			require.ErrorIs(t, err, errDisk)
			h.before = nil
			require.NoError(t, l.Close())
			b, err := vfs.ReadFile(dir.Dir, BoundsFile, 1<<20)
			require.NoError(t, err)
			require.Equal(t, int64(1), CombineBounds(b, 0).End, op)
		}
	})
}

// LOG-09: writes that a disk acknowledged, with their syncs, and lost or put elsewhere end in a refusal, or in what a power loss
// may leave of the bounds, which are not synced: never in a refusal where the disk did not lie.
func TestLyingDisk(t *testing.T) {
	eachShare(t, func(t *testing.T, files *FileShare) {
		honest, refused, unseen := 0, 0, 0
		for seed := range uint64(300) {
			w := sim.New(sim.Options{Seed: seed, MaxSteps: 100_000})
			m := w.Machine("m", sim.MachineConfig{Personality: disk.Personality(seed % 2), Writeback: 500_000})
			var hw int64
			var err error
			lying := sim.Fault(0)
			w.Go("driver", func() {
				life := func(do func(l *Log)) {
					m.Boot(func(e *env.Env) {
						dir, derr := e.FS().OpenRoot("p", true)
						if derr != nil {
							w.Fail(derr)
							return
						}
						var l *Log
						if l, err = Open(e, dir, Options{Files: files}); err == nil {
							do(l)
							hw = max(hw, l.HighWatermark())
							l.Close()
						}
					}).WaitUntil(w.Now().Add(time.Minute))
				}
				commits := func(l *Log) {
					for i := range 1 + w.Choose(4) {
						l.Commit(recs(i, 1+w.Choose(3), 20+w.Choose(900)))
					}
				}
				life(commits)
				if kind := w.Choose(3); kind > 0 {
					lying = []sim.Fault{sim.LostWrite, sim.Misdirected}[kind-1]
					m.ArmFault(lying, sim.OpWrite, "p/"+fileName(0), 1+w.Choose(4))
				}
				life(commits)
				m.ClearFaults()
				m.PowerLoss()
				was := hw
				life(func(l *Log) {
					if l.HighWatermark() < was && !lied(w) {
						w.Fail(fmt.Errorf("watermark %d, was %d", l.HighWatermark(), was))
					}
				})
				var damage *DamageError
				switch {
				case errors.As(err, &damage) && lied(w):
					refused++
				case err != nil:
					w.Fail(fmt.Errorf("refused, and the disk did not lie: %w", err))
				case lied(w):
					unseen++
				default:
					honest++
				}
			})
			require.NoError(t, w.Run(time.Hour), "seed %d", seed)
		}
		t.Logf("%d honest disks, %d lies refused, %d not seen at the open", honest, refused, unseen)
		require.Greater(t, honest, 50)
		require.Greater(t, refused, 5)
	})
}

// lied reports whether a write was acknowledged and not done.
func lied(w *sim.World) bool {
	for f := range w.Stats().Faults { // order-free: any
		if f.Fault == sim.LostWrite || f.Fault == sim.Misdirected {
			return true
		}
	}
	return false
}
