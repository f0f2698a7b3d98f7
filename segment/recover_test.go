package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/record"
	"narad/sim/disk"
	"narad/vfs"
)

// memDir returns a directory of a simulated disk, behind a hook.
func memDir(t testing.TB) (hooked, *hook) {
	dir, err := disk.FS(disk.New(disk.Adversarial)).OpenRoot("p", true)
	require.NoError(t, err)
	h := &hook{}
	return hooked{dir, h}, h
}

// sample is a small log of two sealed segments and an active one, with frames of one and of three records.
type sample struct {
	records []Record
	files   map[int64][]byte
	frames  map[int64][]scanned // by segment
	bases   []int64             // the last one is active
}

var sampleOptions = Options{SegmentBytes: 250}

func newSample(t testing.TB, codec record.Codec) sample {
	dir, _ := memDir(t)
	o := sampleOptions
	o.Codec = codec
	l := open(t, dir, o)
	s := sample{files: map[int64][]byte{}, frames: map[int64][]scanned{}}
	for i := range 8 {
		n := 1 + 2*(i%2)
		r := recs(len(s.records), n, 30)
		commit(t, l, int64(len(s.records)), r...)
		s.records = append(s.records, r...)
	}
	require.NoError(t, l.Close())
	s.bases = logFiles(t, dir)
	require.Len(t, s.bases, 3)
	for _, base := range s.bases {
		s.files[base] = fileBytes(t, dir, base)
		at := int64(0)
		for at < int64(len(s.files[base])) {
			h, err := record.ParseFrameHeader(s.files[base][at:])
			require.NoError(t, err)
			s.frames[base] = append(s.frames[base], scanned{at, h})
			at += h.Size()
		}
	}
	return s
}

// dir puts the sample on a new disk, with one file changed.
func (s sample) dir(t testing.TB, base int64, b []byte) vfs.Dir {
	dir, _ := memDir(t)
	for i, file := range s.files {
		if i == base {
			file = b
		}
		writeFile(t, dir, fileName(i), file)
	}
	return dir
}

// frameOf returns the frame of a segment that holds a byte.
func (s sample) frameOf(base, at int64) scanned {
	for _, f := range s.frames[base] {
		if at < f.endAt() {
			return f
		}
	}
	panic("beyond the file")
}

// Cutting the newest file anywhere loses the frames that are not whole and nothing else; the log goes on.
func TestTruncatedAtEveryByte(t *testing.T) { // LOG-09, LOG-12
	s := newSample(t, record.CodecNone)
	active := s.bases[2]
	whole := s.files[active]
	for n := range whole {
		next, end := active, int64(0)
		for _, f := range s.frames[active] {
			if f.endAt() <= int64(n) {
				next, end = f.Next(), f.endAt()
			}
		}
		dir := s.dir(t, active, whole[:n])
		var ev events
		o := sampleOptions
		o.Event = ev.add
		l := open(t, dir, o)
		require.Equal(t, []Event{Recovered{Next: next, TailCut: int64(n) - end}}, ev.take(), "%d bytes", n)
		requireAll(t, l, s.records[:next])
		require.Len(t, fileBytes(t, dir, active), int(end))
		commit(t, l, next, rec(999, 20))
		l = reopen(t, l, dir, o)
		requireAll(t, l, append(s.records[:next:next], rec(999, 20)))
		require.NoError(t, l.Close())
	}
}

// A flip of any bit costs the offsets of its frame and no others: CorruptError, but a cut where no intact frame follows and
// the damage is in the lengths. Twice, because recovery must leave what it found.
func TestEveryFlipCostsItsFrameOnly(t *testing.T) { // LOG-12, LOG-11
	for _, codec := range []record.Codec{record.CodecNone, record.CodecZstd} {
		s := newSample(t, codec)
		kept, all := 0, 0
		for _, base := range s.bases {
			for at := range s.files[base] {
				f := s.frameOf(base, int64(at))
				for bit := range 8 {
					if bit == at%8 || int64(at) < f.at+record.FrameHeaderSize { // all of the headers
						what := fmt.Sprintf("%v, segment %d, byte %d, bit %d", codec, base, at, bit)
						last := base == s.bases[2] && f.endAt() == int64(len(s.files[base]))
						if all++; s.flip(t, base, f, at, bit, last, what) {
							kept++
						} else {
							require.True(t, last, what)
						}
					}
				}
			}
		}
		require.Less(t, all-kept, all/10, "%v: frames that were cut", codec)
		t.Logf("%v: %d flips, of which %d had a last frame cut", codec, all, all-kept)
	}
}

// flip reports whether the offsets of the frame are still there, unreadable.
func (s sample) flip(t *testing.T, base int64, f scanned, at, bit int, last bool, what string) (kept bool) {
	b := bytes.Clone(s.files[base])
	b[at] ^= 1 << bit
	dir := s.dir(t, base, b)
	for range 2 {
		l := open(t, dir, sampleOptions)
		kept = s.requireLost(t, l, f, last, what)
		require.NoError(t, l.Close())
	}
	l := open(t, dir, sampleOptions)
	next := l.HighWatermark()
	commit(t, l, next, rec(999, 20))
	requireRead(t, l, next, rec(999, 20))
	require.NoError(t, l.Close())
	if kept {
		require.Equal(t, b, fileBytes(t, dir, base)[:len(b)], "%s: nothing is cut away", what)
	}
	return kept
}

func (s sample) requireLost(t *testing.T, l *Log, f scanned, last bool, what string) (kept bool) {
	if kept = !last || l.HighWatermark() != f.Base; kept {
		require.Equal(t, int64(len(s.records)), l.HighWatermark(), what)
	}
	for off := range l.HighWatermark() {
		r, err := l.Read(off)
		if off >= f.Base && off < f.Next() {
			var c *CorruptError
			require.ErrorAs(t, err, &c, "%s, offset %d", what, off)
			require.Equal(t, off, c.Offset)
			require.Equal(t, f.at, c.At, what)
			require.NotNil(t, c.Cause)
			continue
		}
		require.NoError(t, err, "%s, offset %d", what, off)
		require.True(t, same(s.records[off], r), "%s, offset %d", what, off)
	}
	return kept
}

// Larger damage: any run of bytes overwritten with anything, in any file, costs at most the frames that
// it touches, and never gives wrong records.
func TestRandomDamage(t *testing.T) { // LOG-12
	s := newSample(t, record.CodecNone)
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.SampledFrom(s.bases).Draw(rt, "segment")
		b := bytes.Clone(s.files[base])
		from := rapid.IntRange(0, len(b)-1).Draw(rt, "from")
		to := rapid.IntRange(from+1, len(b)).Draw(rt, "to")
		noise := rapid.SliceOfN(rapid.Byte(), to-from, to-from)
		switch kind := rapid.SampledFrom([]string{"zeros", "noise", "frames"}).Draw(rt, "kind"); kind {
		case "zeros":
			clear(b[from:to])
		case "noise":
			copy(b[from:to], noise.Draw(rt, "noise"))
		case "frames": // other bytes of the file, frames among them, which may hide the true ones
			at := rapid.IntRange(0, len(b)-1).Draw(rt, "source")
			copy(b[from:to], append(bytes.Clone(b[at:]), s.files[base]...))
			from, to = 0, len(b)
		}
		dir := s.dir(t, base, b)
		l, err := Open(env.OS(), dir, sampleOptions)
		if refused(err) {
			require.Equal(rt, b, fileBytes(t, dir, base))
			return
		}
		require.NoError(rt, err)
		defer l.Close()
		for off, want := range s.records {
			f := scanned{}
			for at, frames := range s.frames {
				for _, g := range frames {
					if g.Base <= int64(off) && int64(off) < g.Next() {
						f = g
						if at != base {
							f.at = 1 << 40 // untouched
						}
					}
				}
			}
			touched := f.at < int64(to) && f.endAt() > int64(from)
			r, err := l.Read(int64(off))
			if err == nil {
				require.True(rt, same(want, r), "offset %d is %q", off, r.Payload)
				continue
			}
			require.True(rt, touched, "offset %d: %v", off, err)
			require.True(rt, isCorrupt(err) || int64(off) >= l.HighWatermark(), "offset %d: %v", off, err)
		}
	})
}

// A frame inside a message is not a frame: a torn tail whose message looks like part of this very log is cut
// as a whole, and one that was whole once is kept as a gap.
func TestMessageThatLooksLikeTheLog(t *testing.T) { // LOG-09
	dir, _ := memDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	before := fileBytes(t, dir, 0)
	evil := append(make([]byte, 30), record.AppendFrame(nil, 2, record.AppendRecord(nil, nil, 1, []byte("forged")))...)
	evil = append(evil, bytes.Repeat([]byte("z"), 3000)...)
	commit(t, l, 1, Record{Payload: evil})
	require.NoError(t, l.Close())
	whole := fileBytes(t, dir, 0)
	for name, torn := range map[string][]byte{
		"last sectors lost": append(bytes.Clone(whole[:1024]), make([]byte, len(whole)-1024)...),
		"cut short":         whole[:2000],
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := memDir(t)
			writeFile(t, dir, fileName(0), torn)
			l := open(t, dir, Options{})
			requireAll(t, l, recs(0, 1, 10))
			require.Equal(t, before, fileBytes(t, dir, 0))
		})
	}
	rotten := bytes.Clone(whole)
	rotten[len(rotten)-1] ^= 1
	dir, _ = memDir(t)
	writeFile(t, dir, fileName(0), rotten)
	l = open(t, dir, Options{})
	require.Equal(t, int64(2), l.HighWatermark())
	_, err := l.Read(1)
	require.True(t, isCorrupt(err), "%v", err)
	require.Equal(t, rotten, fileBytes(t, dir, 0))
}

// An intact frame where one should stand that continues nothing, an old one or one from elsewhere, is not what a crash
// leaves: the log is not opened, and its file not touched. One that damage precedes may be anything, and is cut.
func TestIntactFramesThatDoNotBelong(t *testing.T) { // LOG-07, LOG-09
	first := record.AppendFrame(nil, 0, record.AppendRecord(nil, nil, 1, []byte("a")))
	frame := func(base int64) []byte {
		return record.AppendFrame(nil, base, record.AppendRecord(nil, nil, 1, []byte("b")))
	}
	for name, tail := range map[string][]byte{
		"again":         first,
		"from the past": frame(0),
		"from later":    frame(7),
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := memDir(t)
			whole := append(bytes.Clone(first), tail...)
			writeFile(t, dir, fileName(0), whole)
			_, err := Open(env.OS(), dir, Options{})
			var damage *DamageError
			require.ErrorAs(t, err, &damage)
			require.ErrorIs(t, err, record.ErrSequence)
			require.Equal(t, fileName(0), damage.File)
			require.Equal(t, int64(len(first)), damage.At)
			require.Equal(t, whole, fileBytes(t, dir, 0))
		})
	}
	dir, _ := memDir(t)
	writeFile(t, dir, fileName(0), append(bytes.Clone(first), append(make([]byte, 40), frame(1<<60)...)...))
	requireAll(t, open(t, dir, Options{}), []Record{{Payload: []byte("a")}})
	require.Equal(t, first, fileBytes(t, dir, 0))
}

// Behind damage, bytes made up to look like very many long frames are not hashed again and again: what a scan hashes is
// bounded by a few times the file. The newest segment is then refused, and a sealed one has a gap.
func TestSearchIsBounded(t *testing.T) {
	plausible := func(size int) []byte { // headers back to back, each of a frame up to the end of the file
		b := make([]byte, 0, size)
		for len(b)+record.FrameHeaderSize < size {
			var w record.FrameWriter
			w.Reset(nil, 1, record.CodecNone)
			w.AddRecord(nil, 1, make([]byte, size-len(b)-record.FrameHeaderSize-100))
			f, err := w.Finish()
			require.NoError(t, err)
			b = append(b, f[:record.FrameHeaderSize]...)
			if len(b) >= 512*record.FrameHeaderSize {
				return append(b, make([]byte, size-len(b))...)
			}
		}
		return b
	}
	const size = 1 << 20
	b := append([]byte{1}, plausible(size)...)
	for _, limit := range []int64{math.MaxInt64, 1000} {
		s := scanner{file: bytes.NewReader(b), name: fileName(0), size: int64(len(b)), limit: limit, sums: true}
		_, _, lost, err := s.scan(0, func(scanned) {})
		require.True(t, s.exhausted)
		require.LessOrEqual(t, s.hashed, s.searchBudget()+size)
		if limit == math.MaxInt64 {
			require.ErrorIs(t, err, errUndecided)
			require.True(t, refused(err))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, int64(1000), lost[0].to)
	}
}

// A segment under another one's name is refused.
func TestSegmentOfAnotherPlace(t *testing.T) {
	s := newSample(t, record.CodecNone)
	newest := s.bases[len(s.bases)-1]
	for _, base := range s.bases[:len(s.bases)-1] {
		dir := s.dir(t, newest, s.files[base])
		_, err := Open(env.OS(), dir, sampleOptions)
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
		require.Equal(t, fileName(newest), damage.File)
		require.Zero(t, damage.At)
	}
}

// When the newest segment has an index, there was a later one: its file is missing. LOG-09, INV-04
func TestNewestSegmentIsMissing(t *testing.T) {
	dir, _ := memDir(t)
	sealedLog(t, dir.Dir)
	bases := logFiles(t, dir.Dir)
	newest := bases[len(bases)-1]
	require.NoError(t, dir.Dir.Remove(fileName(newest)))
	for range 2 { // trying again changes nothing
		_, err := Open(env.OS(), dir.Dir, Options{})
		var damage *DamageError
		require.ErrorAs(t, err, &damage)
		require.ErrorIs(t, err, ErrSuccessor)
		require.Equal(t, fileName(newest), damage.File)
	}
	for _, base := range bases[:len(bases)-1] {
		require.NoError(t, dir.Dir.Remove(fileName(base)))
	}
	_, err := Open(env.OS(), dir.Dir, Options{})
	require.ErrorIs(t, err, ErrSuccessor, "no segment is left")
}

// A frame whose checksum fits and whose inside does not decode costs its offsets only; so does a retired
// record layout.
func TestUndecodableFrames(t *testing.T) { // LOG-11, LOG-12
	good := func(base int64) []byte {
		return record.AppendFrame(nil, base, record.AppendRecord(nil, nil, 1, []byte("x")))
	}
	retired := record.AppendFrame(nil, 1, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	unknown := good(1)
	binary.BigEndian.PutUint32(unknown[27:], 1) // record shorter than the body
	binary.BigEndian.PutUint32(unknown[23:], record.UpdateFrameCRC(record.HeaderFrameCRC(unknown), unknown[27:]))
	for _, c := range []struct {
		b    []byte
		want error
	}{{retired, record.ErrFormat}, {unknown, record.ErrCount}} {
		dir, _ := memDir(t)
		writeFile(t, dir, fileName(0), bytes.Join([][]byte{good(0), c.b, good(2)}, nil))
		l := open(t, dir, Options{})
		require.Equal(t, int64(3), l.HighWatermark())
		requireRead(t, l, 0, Record{Payload: []byte("x")})
		_, err := l.Read(1)
		require.True(t, isCorrupt(err))
		require.ErrorIs(t, err, c.want)
		requireRead(t, l, 2, Record{Payload: []byte("x")})
	}
}

// Opening reads the newest segment and no other.
func TestOpenReadsTheNewestSegmentOnly(t *testing.T) {
	dir, h := memDir(t)
	o := Options{SegmentBytes: 1000}
	l := open(t, dir, o)
	for i := range 100 {
		commit(t, l, int64(i), rec(i, 200))
	}
	require.NoError(t, l.Close())
	bases := logFiles(t, dir)
	require.Greater(t, len(bases), 15)
	h.reset()
	l = open(t, dir, o)
	for _, c := range h.calls {
		require.Contains(t, []string{".", BoundsFile, fileName(bases[len(bases)-1])}, c.name, "%v", c)
	}
	require.Less(t, len(h.calls), 12)
	require.Equal(t, int64(100), l.HighWatermark())
}

// Open changes nothing below its watermark before the newest segment and the directory are synced, and
// fails when either cannot be.
func TestOpenSyncs(t *testing.T) { // LOG-24
	for _, op := range []string{"list", "open", "size", "read", "write", "sync", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			dir, h := memDir(t)
			l := open(t, dir, Options{})
			commit(t, l, 0, recs(0, 3, 10)...)
			require.NoError(t, l.Close())
			h.before = failOn(op)
			for range 2 {
				_, err := Open(l.env, dir, Options{})
				require.ErrorIs(t, err, syscall.EIO)
			}
			require.Positive(t, h.count(op))
			h.before = nil
			requireAll(t, open(t, dir, Options{}), recs(0, 3, 10))
		})
	}
}

// Other files of the partition's directory are neither looked at nor touched.
func TestForeignFiles(t *testing.T) {
	dir, h := memDir(t)
	names := []string{"consumer.offset", "consumer.ahead", "hwm", "0.log", "0000000000000000000x.log", "00000000000000000000.index",
		"99999999999999999999.log", "move.marker", "fanout-x.offset", "-0000000000000000001.log"}
	for _, n := range names {
		writeFile(t, dir.Dir, n, []byte(n))
	}
	require.NoError(t, dir.Dir.Mkdir(fileName(7)))
	writeFile(t, dir.Dir, "00000000000000000007.log.tmp", []byte("left over"))
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	l = reopen(t, l, dir, Options{})
	requireAll(t, l, recs(0, 1, 10))
	for _, c := range h.calls {
		require.NotContains(t, names, c.name)
	}
	for _, n := range names {
		b, err := vfs.ReadFile(dir, n, 100)
		require.NoError(t, err)
		require.Equal(t, n, string(b))
	}
	_, err := dir.Stat("00000000000000000007.log.tmp")
	require.Error(t, err)
}

// A missing sealed file in the middle, or a short one, is a gap up to its successor's name.
func TestShortSealedSegment(t *testing.T) { // LOG-12
	s := newSample(t, record.CodecNone)
	middle := s.bases[1]
	for n := range s.files[middle] {
		dir := s.dir(t, middle, s.files[middle][:n])
		l := open(t, dir, sampleOptions)
		for off, want := range s.records {
			lost := false
			for _, f := range s.frames[middle] {
				lost = lost || f.Base <= int64(off) && int64(off) < f.Next() && f.endAt() > int64(n)
			}
			if !lost {
				requireRead(t, l, int64(off), want)
				continue
			}
			_, err := l.Read(int64(off))
			require.True(t, isCorrupt(err), "offset %d: %v", off, err)
		}
		require.NoError(t, l.Close())
	}
}

// refused reports whether a log was not opened because of damage.
func refused(err error) bool {
	var damage *DamageError
	return errors.As(err, &damage)
}

func FuzzOpen(f *testing.F) {
	s := newSample(f, record.CodecNone)
	for _, b := range s.files {
		f.Add(b)
	}
	for _, b := range newSample(f, record.CodecZstd).files {
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, _ := memDir(t)
		writeFile(t, dir, fileName(0), b)
		sealed, _ := memDir(t)
		writeFile(t, sealed, fileName(0), b)
		writeFile(t, sealed, fileName(20), nil)
		for _, d := range []vfs.Dir{dir, sealed} {
			l, err := Open(env.OS(), d, Options{})
			if refused(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			hw := l.HighWatermark()
			for off := range min(hw, 50) {
				if _, err := l.Read(off); err != nil && !isCorrupt(err) {
					t.Fatal(err)
				}
			}
			commit(t, l, hw, rec(1, 10))
			l = reopen(t, l, d, Options{})
			requireRead(t, l, hw, rec(1, 10))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What is written to make a frame durable is verified, or recovery would make durable what is left. What is read differently for
// good is no torn tail when the bounds go over it.
func TestFrameThatReadsDifferentlyUnderRecovery(t *testing.T) { // LOG-24, LOG-25
	for _, reads := range []int{1, math.MaxInt} {
		dir, h := memDir(t)
		l := open(t, dir, Options{})
		commit(t, l, 0, rec(0, 10))
		commit(t, l, 1, rec(1, 10))
		require.NoError(t, l.Close())
		whole := fileBytes(t, dir, 0)
		n := 0
		h.after = func(c call, p []byte, err error) error {
			if c.op == "read" && c.name != BoundsFile {
				if n++; n > 1 && n-1 <= reads { // the scan took one
					clear(p)
				}
			}
			return err
		}
		again, err := Open(l.env, dir, Options{})
		if reads == 1 {
			require.NoError(t, err)
			require.NoError(t, again.Close())
		} else {
			require.ErrorIs(t, err, ErrEndMissing)
		}
		require.Greater(t, n, 2, "it was looked at again")
		h.after = nil
		require.Equal(t, whole, fileBytes(t, dir, 0))
		requireAll(t, open(t, dir, Options{}), recs(0, 2, 10))
	}
}

// A frame whose sync failed may be readable until its pages are evicted, and that may be while it is being recovered, between any two
// calls: the log ends before it then, and opens. So it does when the disk had written some of its sectors.
func TestFrameThatVanishesUnderRecovery(t *testing.T) { // LOG-24, LOG-25, LOG-09
	for seed := range uint64(8) {
		for _, size := range []int{10, 1200} {
			vanished, evictions := 0, 0
			for n := 0; ; n++ {
				d := disk.New(disk.Adversarial)
				s := newStory(t, d, Options{})
				require.NoError(t, s.open())
				require.NoError(t, s.commit(1, 700))
				s.fault = failSyncVisibly(d, seed)
				require.ErrorIs(t, s.commit(1, size), errDisk)
				require.NoError(t, s.log.Close())
				calls, evicted := 0, false
				s.fault = func(op disk.Op) error {
					if calls++; calls == n+1 {
						evicted = true
						d.Evict(op.Ino)
						d.Evict(inoOf(t, d, fileName(0)))
					}
					return nil
				}
				s.state.at = fmt.Sprintf("evicted before call %d, seed %d", n, seed)
				require.NoError(t, s.open(), s.state.at)
				if !evicted {
					break
				}
				evictions++
				if len(s.state.confirmed) == 1 {
					vanished++
				}
				s.fault = nil
				s.next = 500
				require.NoError(t, s.commit(2, 900), s.state.at)
				s.state.at += ", committed again"
				newChecker(t, 20).durable(s)
				require.NoError(t, s.log.Close())
			}
			require.Greater(t, evictions, 5)
			if seed == 0 { // the disk had written nothing of it
				require.Greater(t, vanished, 3, "of %d", evictions)
			}
			require.Greater(t, evictions, vanished, "it is durable at last")
		}
	}
}

// failSyncVisibly makes syncs of segments fail that leave what was written readable. Before, the disk writes some of it, drawn from a
// seed; nothing for 0.
func failSyncVisibly(d *disk.Disk, seed uint64) disk.Hook {
	return func(op disk.Op) error {
		if op.Kind != disk.OpSync || !strings.HasSuffix(op.Path, fileSuffix) {
			return nil
		}
		if seed > 0 {
			d.Background(draws{rand.New(rand.NewPCG(seed, 0))})
		}
		d.SyncFails(op.Ino, true)
		return errDisk
	}
}

// draws is a disk.Chooser.
type draws struct{ *rand.Rand }

func (d draws) Choose(n int) int { return d.IntN(n) }

func inoOf(t testing.TB, d *disk.Disk, name string) disk.Ino {
	_, ino, err := d.Lookup(d.Root(), "p/"+name)
	require.NoError(t, err)
	return ino
}
