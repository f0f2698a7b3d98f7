package segment

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/sim/disk"
	"narad/vfs"
)

var goldenIndex = Index{
	Base: 4711, End: 9000, Bytes: 67_108_900, LastAt: 67_100_000, LastCRC: 0xdeadbeef,
	Entries: []IndexEntry{{4711, 0}, {4800, 32_768}, {8999, 67_100_000}},
}

// The format is frozen: these bytes are read and written for ever.
func TestIndexGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/index.hex")
	require.NoError(t, err)
	want, err := hex.DecodeString(string(text[:len(text)-1]))
	require.NoError(t, err)
	require.Equal(t, want, AppendIndex(nil, goldenIndex))
	x, err := ParseIndex(want)
	require.NoError(t, err)
	require.Equal(t, goldenIndex, x)
}

// Every bit counts, and no cut-off or grown file is taken.
func TestIndexDamage(t *testing.T) {
	b := AppendIndex(nil, goldenIndex)
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		_, err := ParseIndex(b)
		if at := i / 8; at == 10 || at == 11 { // reserved, under the checksum
			require.ErrorIs(t, err, record.ErrChecksum)
		}
		require.Error(t, err, "bit %d", i)
		b[i/8] ^= 1 << (i % 8)
	}
	for n := range len(b) {
		_, err := ParseIndex(b[:n])
		require.Error(t, err)
	}
	_, err := ParseIndex(append(b, 0))
	require.ErrorIs(t, err, record.ErrLength)
}

// Contradictions are found under a good checksum too.
func TestIndexContradictions(t *testing.T) {
	for name, change := range map[string]func(x *Index){
		"first offset": func(x *Index) { x.Entries[0].Offset++ },
		"first byte":   func(x *Index) { x.Entries[0].At = 1 },
		"order":        func(x *Index) { x.Entries[1].Offset = x.Entries[2].Offset },
		"order, bytes": func(x *Index) { x.Entries[1].At = x.Entries[2].At },
		"end":          func(x *Index) { x.End = 8999 },
		"last frame":   func(x *Index) { x.LastAt = 4711 },
		"size":         func(x *Index) { x.Bytes = x.LastAt + 26 },
		"negative":     func(x *Index) { x.Base, x.Entries[0].Offset = -1, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			x := goldenIndex
			x.Entries = append([]IndexEntry(nil), x.Entries...)
			change(&x)
			_, err := ParseIndex(AppendIndex(nil, x))
			require.ErrorIs(t, err, record.ErrSequence)
		})
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add(AppendIndex(nil, goldenIndex))
	f.Add(AppendIndex(nil, Index{Bytes: 100, End: 1, Entries: []IndexEntry{{0, 0}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseIndex(b)
		if err != nil && len(b) >= indexHeaderSize { // let the fuzzer past the checksum
			binary.BigEndian.PutUint32(b[52:], crc32.Update(crc32.Checksum(b[:52], castagnoli), castagnoli, b[indexHeaderSize:]))
			x, err = ParseIndex(b)
		}
		if err != nil {
			return
		}
		b[10], b[11] = 0, 0
		again, err := ParseIndex(AppendIndex(nil, x))
		require.NoError(t, err)
		require.Equal(t, x, again)
		require.LessOrEqual(t, len(x.Entries)*indexEntrySize, len(b))
	})
}

// sealedLog makes a log whose first segment, of many frames, is sealed, and returns it closed.
func sealedLog(t testing.TB, dir vfs.Dir) (n int) {
	l := open(t, dir, Options{SegmentBytes: 300_000})
	for ; len(logFiles(t, dir)) < 2; n++ {
		commit(t, l, int64(n), rec(n, 10_000))
	}
	require.NoError(t, l.Close())
	return n
}

// A sealed segment is not walked when its index counts, and is walked, and indexed again, when it does not.
func TestIndexIsUsedOrRebuilt(t *testing.T) {
	with := func(change func(x *Index)) func([]byte) []byte {
		return func(good []byte) []byte {
			x, err := ParseIndex(good)
			require.NoError(t, err)
			require.Greater(t, len(x.Entries), 5)
			change(&x)
			return AppendIndex(nil, x)
		}
	}
	for _, c := range []struct {
		name   string
		file   func(good []byte) []byte
		walked bool
	}{
		{"good", func(b []byte) []byte { return b }, false},
		{"missing", func(b []byte) []byte { return nil }, true},
		{"empty", func(b []byte) []byte { return []byte{} }, true},
		{"torn", func(b []byte) []byte { return b[:100] }, true},
		{"of another end", with(func(x *Index) { x.End++ }), true},
		{"lies about a place", with(func(x *Index) { x.Entries[3].At++ }), true},
		{"lies about an offset", with(func(x *Index) { x.Entries[3].Offset++ }), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, h := memDir(t)
			n := sealedLog(t, dir.Dir)
			good, err := vfs.ReadFile(dir.Dir, indexName(0), 1<<20)
			require.NoError(t, err)
			require.NoError(t, dir.Dir.Remove(indexName(0)))
			if b := c.file(good); b != nil {
				writeFile(t, dir.Dir, indexName(0), b)
			}
			var told events
			l := open(t, dir, Options{Event: told.add})
			told.take()
			h.reset()
			for off := n - 2; off >= 0; off-- { // backwards: each block is looked up
				requireRead(t, l, int64(off), rec(off, 10_000))
			}
			require.Empty(t, told.take(), "a wrong index is not damage of the log")
			require.Equal(t, c.walked, h.count("create") == 1, "%v", h.ops())
			now, err := vfs.ReadFile(dir.Dir, indexName(0), 1<<20)
			require.NoError(t, err)
			require.True(t, string(good) == string(now), "what the log wrote when it sealed the segment, and what a walk finds, differ")
		})
	}
}

// Damage in a segment with an index costs its frame, and no index is kept of a segment with damage.
func TestIndexOfADamagedSegment(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		dir, _ := memDir(t)
		n := sealedLog(t, dir.Dir)
		if !indexed {
			require.NoError(t, dir.Dir.Remove(indexName(0)))
		}
		b := fileBytes(t, dir.Dir, 0)
		b[len(b)/2] ^= 1
		writeFile(t, dir.Dir, fileName(0), b)
		l := open(t, dir, Options{})
		lost := 0
		for off := range n - 1 {
			_, err := l.Read(int64(off))
			if isCorrupt(err) {
				lost++
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, 1, lost)
	}
}

// A segment that has damage when it is sealed gets no index, and its lost offsets stay known.
func TestSealedWithDamage(t *testing.T) { // LOG-11, LOG-12
	dir, _ := memDir(t)
	o := Options{SegmentBytes: 1000}
	l := open(t, dir, o)
	for i := range 3 {
		commit(t, l, int64(i), rec(i, 100))
	}
	require.NoError(t, l.Close())
	b := fileBytes(t, dir, 0)
	b[len(b)/2] ^= 1 // in the second of three equal frames
	writeFile(t, dir, fileName(0), b)
	l = open(t, dir, o)
	commit(t, l, 3, rec(3, 1000))
	commit(t, l, 4, rec(4, 10)) // rolls
	require.Len(t, logFiles(t, dir), 2)
	_, err := dir.Stat(indexName(0))
	require.ErrorIs(t, err, fs.ErrNotExist)
	l = reopen(t, l, dir, o)
	for i := range 5 {
		_, err := l.Read(int64(i))
		require.Equal(t, i == 1, isCorrupt(err), "offset %d: %v", i, err)
	}
}

// Indexes without a segment go when the log is opened.
func TestStrayIndexes(t *testing.T) { // INV-32
	dir, _ := memDir(t)
	sealedLog(t, dir.Dir)
	bases := logFiles(t, dir.Dir)
	for _, base := range []int64{1, bases[1], 1 << 40} {
		writeFile(t, dir.Dir, indexName(base), []byte("stray"))
	}
	open(t, dir, Options{})
	entries, err := dir.List()
	require.NoError(t, err)
	require.Len(t, entries, 4)
}

// LOG-11, INV-01: a sealed segment that was exchanged as a whole is told by its index, whatever its frames say, and not served; all
// others are. With the index removed, what is there is. One that is damaged is not taken for another one.
func TestSealedSegmentExchanged(t *testing.T) {
	other := func(size int) []byte { // frames of the same offsets, of another log
		dir, _ := memDir(t)
		l := open(t, dir.Dir, Options{SegmentBytes: 1000})
		for i := range 3 {
			commit(t, l, int64(i), rec(5+i, size))
		}
		require.NoError(t, l.Close())
		return fileBytes(t, dir.Dir, 0)
	}
	for name, c := range map[string]struct {
		change  func(b []byte) []byte
		refused bool
		lost    int
	}{
		"as it was":                {func(b []byte) []byte { return b }, false, 0},
		"same sizes":               {func([]byte) []byte { return other(400) }, true, 0},
		"other sizes":              {func([]byte) []byte { return other(300) }, true, 0},
		"of fewer offsets":         {func(b []byte) []byte { return b[:len(b)*2/3] }, false, 1},
		"last frame damaged":       {func(b []byte) []byte { b[len(b)-3] ^= 1; return b }, false, 1},
		"last checksum damaged":    {func(b []byte) []byte { b[len(b)*2/3+24] ^= 1; return b }, false, 1},
		"other, and damaged":       {func([]byte) []byte { b := other(400); b[len(b)/2] ^= 1; return b }, true, 0},
		"other, last one damaged":  {func([]byte) []byte { b := other(400); b[len(b)-3] ^= 1; return b }, false, -1},
		"bytes behind":             {func(b []byte) []byte { return append(b, 1, 2, 3) }, false, 0},
		"last frame of other only": {func(b []byte) []byte { o := other(400); copy(b[len(b)*2/3:], o[len(o)*2/3:]); return b }, true, 0},
		"other, with bytes behind": {func([]byte) []byte { return append(other(400), 1, 2, 3) }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := memDir(t)
			o := Options{SegmentBytes: 1000}
			l := open(t, dir.Dir, o)
			for i := range 5 {
				commit(t, l, int64(i), rec(i, 400))
			}
			require.NoError(t, l.Close())
			require.Equal(t, []int64{0, 3}, logFiles(t, dir.Dir))
			writeFile(t, dir.Dir, fileName(0), c.change(fileBytes(t, dir.Dir, 0)))
			before := dump(t, dir.Dir)
			l = open(t, dir.Dir, o)
			lost := 0
			for range 2 { // the second time from memory
				lost = 0
				for off := range int64(3) {
					_, err := l.Read(off)
					var damage *DamageError
					switch {
					case c.refused:
						require.ErrorAs(t, err, &damage)
						require.ErrorIs(t, err, ErrOtherSegment)
						require.Equal(t, fileName(0), damage.File)
					case isCorrupt(err):
						lost++
					default:
						require.NoError(t, err)
					}
				}
			}
			if c.lost >= 0 {
				require.Equal(t, c.lost, lost)
			}
			requireRead(t, l, 3, rec(3, 400))
			require.NoError(t, l.Close())
			if !c.refused {
				return
			}
			require.Equal(t, before, dump(t, dir.Dir), "nothing is changed")
			require.NoError(t, dir.Dir.Remove(indexName(0)))
			l = open(t, dir.Dir, o)
			_, err := l.Read(0)
			require.NoError(t, err)
			require.NoError(t, l.Close())
		})
	}
}

// RET-04, LOG-25: a read makes no index of a segment whose successor may lose its name, or that index would say after a power failure
// that a file is missing.
func TestNoIndexBeforeALostName(t *testing.T) {
	d := disk.New(disk.Adversarial)
	s := newStory(t, d, crashOptions)
	require.NoError(t, s.open())
	s.operation("1")
	s.operation(namesLost) // closes and opens, and reads everything
	require.Len(t, logFiles(t, s.dir), 2)
	s.mark("read")
	for _, st := range s.states {
		newChecker(t, 0).crash(st, 1)
	}
	s.operation("1") // gives the name again
	require.NoError(t, s.reopen())
	_, err := s.dir.Stat(indexName(0))
	require.NoError(t, err, "now it is there")
	require.NoError(t, s.log.Close())
}
