package segment

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// shareDir returns a directory of a simulated disk behind a hook.
func shareDir(t testing.TB, d *disk.Disk, name string) (hooked, *hook) {
	dir, err := disk.FS(d).OpenRoot(name, true)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	h := &hook{}
	return hooked{dir, h}, h
}

// No more bounds files are held than the share says, the next log that writes takes what comes back, and all comes back.
func TestShareIsTheMost(t *testing.T) {
	const share, n = 2, 5
	d := disk.New(disk.Adversarial)
	o := Options{SegmentBytes: 100, Files: NewFileShare(share)}
	most := 0
	look := func(call) error { most = max(most, d.Held(BoundsFile)); return nil }
	var logs []*Log
	for i := range n {
		dir, h := shareDir(t, d, fmt.Sprint(i))
		h.before = look
		l := open(t, dir, o)
		commit(t, l, 0, rec(0, 200))
		commit(t, l, 1, rec(1, 200))
		logs = append(logs, l)
		require.Equal(t, min(i+1, share), d.Held(BoundsFile))
	}
	require.NoError(t, logs[0].Close())
	require.NoError(t, logs[0].Close(), "again")
	require.Equal(t, share-1, d.Held(BoundsFile))
	for _, i := range []int{4, 3} { // the first one takes what came back
		_, err := logs[i].Retain(NeverMs)
		require.NoError(t, err)
		require.Equal(t, share, d.Held(BoundsFile))
		require.Equal(t, i == 4, logs[i].bounds.held != nil)
	}
	for _, i := range []int{2, 3} {
		require.NoError(t, logs[i].Close())
		require.Equal(t, share, d.Held(BoundsFile), "it had none to give back")
	}
	require.NoError(t, logs[4].Close())
	require.NoError(t, logs[1].Close())
	require.Zero(t, d.Held(BoundsFile))
	require.LessOrEqual(t, most, share+1, "one more while it is written")
	require.EqualValues(t, share, o.Files.left.Load())
}

// Whichever call fails, alone or with all after it, nothing stays open and the share is whole when a log is closed, or was not opened.
func TestShareComesBackFromFailures(t *testing.T) {
	before := disk.New(disk.Adversarial)
	dir, _ := shareDir(t, before, "p")
	boundedLog(t, dir, nil)
	oldest := logFiles(t, dir)[0]
	bigSegment(t, dir, 0, 1, int(oldest), 10) // an interrupted removal
	refused := 0
	for _, share := range []int{0, 1} {
		for _, forEver := range []bool{false, true} {
			for n := 0; ; n++ {
				d := before.Clone()
				dir, h := shareDir(t, d, "p")
				held := d.Held("")
				h.before = func(c call) error {
					if c.n == n || forEver && c.n > n {
						return errDisk
					}
					return nil
				}
				o := Options{SegmentBytes: 1000, Identity: 7, Files: NewFileShare(share)}
				l, err := Open(env.OS(), dir, o)
				if err == nil {
					for i := range 5 {
						l.Commit(recs(100+i, 1, 300))
					}
					l.Retain(NeverMs)
					l.Commit(recs(200, 1, 300))
					require.LessOrEqual(t, d.Held(BoundsFile), share)
					require.Equal(t, share-d.Held(BoundsFile), int(o.Files.left.Load()))
					l.Close()
				} else {
					refused++
				}
				require.EqualValues(t, share, o.Files.left.Load(), "call %d", n)
				require.Zero(t, d.Held(BoundsFile), "call %d", n)
				require.Equal(t, held, d.Held(""), "call %d", n)
				if len(h.calls) <= n {
					break
				}
			}
		}
	}
	require.Greater(t, refused, 40)
}

// Bounds that cannot be written are not held any more when they are removed, and the next segment begins a file that is.
func TestShareAfterADrop(t *testing.T) {
	for _, files := range []*FileShare{nil, NewFileShare(1)} {
		d := disk.New(disk.Adversarial)
		dir, h := shareDir(t, d, "p")
		l := open(t, dir, Options{SegmentBytes: 100, Files: files})
		commit(t, l, 0, rec(0, 200))
		require.Equal(t, 1, d.Held(BoundsFile))
		h.before = func(c call) error {
			if c.op == "sync" && c.name == BoundsFile {
				return errDisk
			}
			return nil
		}
		_, err := l.Retain(NeverMs)
		require.NoError(t, err)
		require.Zero(t, d.Held(BoundsFile))
		commit(t, l, 1, rec(1, 200))
		commit(t, l, 2, rec(2, 200))
		require.Equal(t, 1, d.Held(BoundsFile))
		b, err := vfs.ReadFile(dir.Dir, BoundsFile, 1<<20)
		require.NoError(t, err)
		require.EqualValues(t, 3, CombineBounds(b, 0).End)
		require.NoError(t, l.Close())
		require.Zero(t, d.Held(BoundsFile))
	}
}

// A log with a share tells of every commit, at once.
func TestShareTellsAtOnce(t *testing.T) {
	for _, files := range []*FileShare{nil, NewFileShare(1)} {
		d := disk.New(disk.Adversarial)
		dir, _ := shareDir(t, d, "p")
		var c clock
		l, err := Open(env.Simulated(&c, nil), dir, Options{Files: files})
		require.NoError(t, err)
		for i := range int64(3) {
			commit(t, l, i, rec(int(i), 20))
			b, err := vfs.ReadFile(dir.Dir, BoundsFile, 1<<20)
			require.NoError(t, err)
			require.Equal(t, i+1, CombineBounds(b, 0).End)
		}
		require.NoError(t, l.Close())
	}
}

// However many take at once, there are never more than the share.
func TestShareIsTakenAtOnce(t *testing.T) {
	const share = 3
	s := NewFileShare(share)
	var out atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				if s.take() {
					if n := out.Add(1); n > share {
						t.Errorf("%d taken of %d", n, share)
					}
					out.Add(-1)
					s.release()
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, share, s.left.Load())
}

// A log that is refused for damage gives its share back.
func TestShareComesBackFromARefusal(t *testing.T) {
	d := disk.New(disk.Adversarial)
	dir, _ := shareDir(t, d, "p")
	o, _ := boundedLog(t, dir, NewFileShare(1))
	require.NoError(t, dir.Remove(fileName(logFiles(t, dir)[0])))
	_, err := Open(env.OS(), dir, o)
	require.ErrorIs(t, err, ErrOldestMissing)
	require.EqualValues(t, 1, o.Files.left.Load())
	require.Zero(t, d.Held(BoundsFile))
}

// Many logs use one share at once.
func TestShareOfManyLogs(t *testing.T) {
	const share, n, rounds = 3, 8, 5
	d := disk.New(disk.Adversarial)
	o := Options{SegmentBytes: 100, Files: NewFileShare(share)}
	dirs := make([]hooked, n)
	for i := range dirs {
		dirs[i], _ = shareDir(t, d, fmt.Sprint(i))
	}
	for range rounds {
		logs := make([]*Log, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				l, err := Open(env.OS(), dirs[i], o)
				if err != nil {
					t.Error(err)
					return
				}
				logs[i] = l
				for c := range 6 {
					l.Commit(recs(c, 1, 200))
				}
				if i%2 == 0 {
					l.Close() // others take over
					return
				}
				if _, err := l.Retain(NeverMs); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.False(t, t.Failed())
		held := 0
		for i, l := range logs {
			if l.bounds.held != nil {
				require.Equal(t, 1, i%2)
				held++
			}
		}
		require.LessOrEqual(t, held, share)
		require.Equal(t, held, d.Held(BoundsFile))
		require.EqualValues(t, share-held, o.Files.left.Load())
		for _, l := range logs {
			wg.Go(func() { l.Close() })
		}
		wg.Wait()
		require.EqualValues(t, share, o.Files.left.Load())
		require.Zero(t, d.Held(BoundsFile))
	}
}

// teller is a log without a share, in a world whose clock the test turns.
type teller struct {
	t     *testing.T
	disk  *disk.Disk
	clock clock
	dir   hooked
	hook  *hook
	o     Options
	log   *Log
}

func newTeller(t *testing.T, o Options) *teller {
	l := &teller{t: t, disk: disk.New(disk.Adversarial), o: o}
	l.dir, l.hook = shareDir(t, l.disk, "p")
	l.o.Files = NewFileShare(0)
	l.open()
	return l
}

func (l *teller) open() {
	var err error
	l.log, err = Open(env.Simulated(&l.clock, nil), l.dir, l.o)
	require.NoError(l.t, err)
}

// commit makes one commit and requires what the file says of the end afterwards.
func (l *teller) commit(says int64) {
	l.t.Helper()
	next := l.log.HighWatermark()
	commit(l.t, l.log, next, rec(int(next), 200))
	require.Equal(l.t, says, l.says().End)
	require.Zero(l.t, l.disk.Held(BoundsFile), "it is open for a write only")
}

// says returns what the file holds.
func (l *teller) says() StoredBounds {
	b, err := vfs.ReadFile(l.dir.Dir, BoundsFile, 1<<20)
	require.NoError(l.t, err)
	return CombineBounds(b, 0)
}

// writes counts the writes of the file since the last look.
func (l *teller) writes() (n int) {
	for _, op := range l.hook.ops() {
		if op == "write "+BoundsFile {
			n++
		}
	}
	l.hook.reset()
	return n
}

// Without a share the first commit is told, then one each half minute, and what is left when the log is closed.
func TestTellsEachHalfMinute(t *testing.T) {
	l := newTeller(t, Options{})
	l.commit(1)
	require.Equal(t, 2, l.writes(), "both cells of a new file")
	l.commit(1)
	l.clock.now = l.clock.now.Add(tellEvery - 1)
	l.commit(1)
	require.Zero(t, l.writes())
	l.clock.now++
	l.commit(4)
	l.commit(4)
	l.clock.now = l.clock.now.Add(tellEvery - 1)
	l.commit(4)
	require.Equal(t, 1, l.writes())
	require.NoError(t, l.log.Close())
	require.EqualValues(t, 6, l.says().End)
	require.Equal(t, 1, l.writes())
	for range 4 { // for two minutes, each second
		l.open()
		require.Zero(t, l.writes(), "the file says it")
		require.NoError(t, l.log.Close())
		require.Zero(t, l.writes(), "and no commit was made")
	}
	l.open()
	for range 120 {
		next := l.log.HighWatermark()
		commit(t, l.log, next, rec(int(next), 10))
		l.clock.now = l.clock.now.Add(time.Second)
	}
	require.Equal(t, 4, l.writes())
	require.NoError(t, l.log.Close())
	s := l.says()
	require.EqualValues(t, 126, s.End)
	require.Equal(t, fileCRC(t, l.dir, 125), s.CRC)
	require.True(t, s.HasCRC)
}

// fileCRC returns the checksum of the frame of one record at an offset of the first segment.
func fileCRC(t testing.TB, dir vfs.Dir, offset int64) (crc uint32) {
	f, err := dir.Open(fileName(0))
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Size()
	require.NoError(t, err)
	s := scanner{file: f, size: size, limit: offset + 1, sums: true}
	_, _, _, err = s.scan(0, func(f scanned) { crc = f.CRC })
	require.NoError(t, err)
	return crc
}

// A log whose process died before it told is told of when it is opened, whatever the clock said before.
func TestTellsWhenOpened(t *testing.T) {
	l := newTeller(t, Options{})
	l.commit(1)
	l.commit(1)
	l.commit(1)
	l.disk.ProcessCrash()
	l.dir, l.hook = shareDir(t, l.disk, "p")
	l.clock.now = 0
	l.open()
	require.EqualValues(t, 3, l.says().End)
	require.Equal(t, fileCRC(t, l.dir, 2), l.says().CRC)
	require.NoError(t, l.dir.Remove(BoundsFile))
	require.NoError(t, l.log.Close())
	l.open()
	require.EqualValues(t, 3, l.says().End)
	require.Equal(t, [2]error{}, l.says().Cells)
}

// Retention tells of all commits in both cells and syncs that by the file that it wrote, before anything goes.
func TestTellsWhenRetained(t *testing.T) {
	l := newTeller(t, Options{SegmentBytes: 100})
	l.commit(1)
	l.commit(1)
	l.commit(1)
	l.hook.reset()
	_, err := l.log.Retain(NeverMs)
	require.NoError(t, err)
	var ops []string
	for _, op := range l.hook.ops() {
		if strings.HasSuffix(op, " "+BoundsFile) || strings.HasPrefix(op, "remove ") && strings.HasSuffix(op, fileSuffix) {
			ops = append(ops, op)
		}
	}
	tells := []string{"open bounds", "write bounds", "write bounds", "sync bounds"}
	want := append(slices.Clone(tells), "remove "+fileName(0), "remove "+fileName(1))
	want = append(append(want, tells...), "remove "+fileName(2)) // once the active segment is sealed
	require.Equal(t, want, ops)
	b, err := vfs.ReadFile(l.dir.Dir, BoundsFile, 1<<20)
	require.NoError(t, err)
	for i := range 2 {
		cell, err := ParseBounds(b[i*BoundsCellAt:])
		require.NoError(t, err)
		require.EqualValues(t, 3, cell.Oldest)
		require.EqualValues(t, 3, cell.End)
	}
	l.hook.reset()
	require.NoError(t, l.log.Close())
	require.Zero(t, l.writes(), "nothing was left to tell")
}

// RET-04: retention goes on without bounds that do not open, and so does a commit; the next segment begins them anew.
func TestRetainWhenBoundsDoNotOpen(t *testing.T) {
	l := newTeller(t, Options{SegmentBytes: 100})
	l.commit(1)
	l.hook.before = func(c call) error {
		if c.op == "open" && c.name == BoundsFile {
			return errDisk
		}
		return nil
	}
	l.clock.now = l.clock.now.Add(tellEvery)
	l.commit(1)
	_, err := l.log.Retain(NeverMs)
	require.NoError(t, err)
	require.EqualValues(t, 2, l.log.Oldest())
	_, err = l.dir.Stat(BoundsFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
	l.hook.before = nil
	commit(t, l.log, 2, rec(2, 200))
	l.clock.now = l.clock.now.Add(tellEvery)
	l.commit(4) // begins a segment, and with it a file
	require.Equal(t, Bounds{Oldest: 2, End: 4, HasCRC: true, CRC: l.says().CRC}, l.says().Bounds)
	require.Equal(t, [2]error{}, l.says().Cells)
}

// The operator removes the file under an open log, to accept a loss: nothing fails, and the log opens as it was closed.
func TestBoundsRemovedUnderALog(t *testing.T) {
	for _, then := range []string{"commit", "close", "retain"} {
		l := newTeller(t, Options{SegmentBytes: 100})
		l.commit(1)
		l.commit(1)
		require.NoError(t, l.dir.Remove(BoundsFile))
		oldest := int64(0)
		switch then {
		case "commit":
			l.clock.now = l.clock.now.Add(tellEvery)
			commit(t, l.log, 2, rec(2, 200))
		case "retain":
			_, err := l.log.Retain(NeverMs)
			require.NoError(t, err)
			oldest = 2
		}
		next := l.log.HighWatermark()
		require.NoError(t, l.log.Close())
		if then != "retain" { // which begins a segment, and with it a file
			_, err := l.dir.Stat(BoundsFile)
			require.ErrorIs(t, err, fs.ErrNotExist, then)
		}
		l.open()
		require.Equal(t, oldest, l.log.Oldest(), then)
		require.Equal(t, Bounds{Oldest: oldest, End: next, HasCRC: l.says().HasCRC, CRC: l.says().CRC}, l.says().Bounds, then)
	}
}

// What could not be told is told with the next commit, not half a minute later.
func TestTellsAfterAFailure(t *testing.T) {
	l := newTeller(t, Options{SegmentBytes: 100})
	l.hook.before = func(c call) error {
		if c.name == BoundsFile {
			return errDisk
		}
		return nil
	}
	commit(t, l.log, 0, rec(0, 200))
	l.hook.before = nil
	l.clock.now++
	commit(t, l.log, 1, rec(1, 200)) // begins a segment, and with it the file
	require.EqualValues(t, 2, l.says().End)
}
