package inspect

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/segment"
	"narad/vfs"
)

func TestFixtureIsClean(t *testing.T) {
	r := fixture(t).verify()
	require.Empty(t, r.Findings)
	require.Equal(t, Clean, r.Outcome)
	require.True(t, r.Locked && r.Complete && r.Verified)
}

// Every byte of every file, changed in several ways: there is always a report, and where a checksum covers the
// byte it names the file and a place at or before the byte, with the byte inside.
func TestEveryByte(t *testing.T) {
	m := fixture(t)
	for _, name := range m.names() {
		if name[len(name)-1] == '/' {
			continue
		}
		good := m.bytes(name)
		for i := range good {
			if name == aheadPath && i%512 > 120 && i%97 != 0 {
				continue // zeros up to the end of the slot
			}
			for _, mask := range []byte{0x01, 0x80} {
				b := bytes.Clone(good)
				b[i] ^= mask
				r := m.with(name, b).verify()
				if name == jourFile && i >= 48 && i < 64 {
					continue // a cell that says nothing any more: the changes are there, and the next start writes new ones
				}
				if slices.Contains(checksummed, name) {
					requireFound(t, r, name, int64(i))
				}
			}
		}
		for size := range good {
			if name == aheadPath && size%512 > 120 && size%97 != 0 {
				continue
			}
			r := m.with(name, good[:size]).verify()
			if slices.Contains(checksummed, name) && !(name == log2 && size == 0) && !atBoundary(name, good, size) {
				requireFound(t, r, name, int64(size))
			}
		}
	}
}

// What the broker refuses to open is damage, and so is a last frame that rotted.
func TestRefusedPartitions(t *testing.T) {
	m := fixture(t)
	find := func(m *memory, code string) *Finding {
		for _, f := range m.verify().Findings {
			if f.Code == code && f.Severity == SeverityDamage {
				return &f
			}
		}
		return nil
	}
	twice := find(m.with(log2, append(bytes.Clone(m.bytes(log2)), m.bytes(log2)...)), "log-misplaced")
	require.NotNil(t, twice)
	require.Equal(t, int64(len(m.bytes(log2))), twice.Offset)
	require.Equal(t, log2, twice.File)
	other := find(m.with(log2, m.bytes(log1)), "log-misplaced")
	require.NotNil(t, other)
	require.Zero(t, other.Offset)

	base, ok := parseLogName(log2[strings.LastIndex(log2, "/")+1:])
	require.True(t, ok)
	end := base + 1
	index := segment.AppendIndex(nil, segment.Index{Base: base, End: end, Bytes: int64(len(m.bytes(log2))), Entries: []segment.IndexEntry{{Offset: base}}})
	name := strings.TrimSuffix(log2, logSuffix) + ".idx"
	missing := find(m.with(name, index), "log-missing")
	require.NotNil(t, missing)
	require.Equal(t, name, missing.File)

	rotten := bytes.Clone(m.bytes(log2))
	rotten[len(rotten)-1] ^= 1
	require.NotNil(t, find(m.without("clean").with(log2, rotten), "log-frame"))
}

// atBoundary tells that a newest file is cut between two frames: nothing can show that there was more, but for
// what other files say.
func atBoundary(name string, b []byte, size int) bool {
	at := 0
	for at < size {
		switch name {
		case log2:
			h, _ := record.ParseFrameHeader(b[at:])
			at += int(h.Size())
		case wal2:
			h, _ := record.ParseWALHeader(b[at:])
			at += h.Size()
		case jourFile: // a header, then entries
			if at == 0 {
				at = 64
			} else {
				at += 16 + int(binary.LittleEndian.Uint32(b[at:]))
			}
		default:
			return false
		}
	}
	return at == size && size > 0 || name == wal2 && size == 0
}

func requireFound(t *testing.T, r *Report, name string, at int64) {
	t.Helper()
	if name == snapFile || name == jourFile {
		at = max(at, 12) // what the header's checksum covers is reported at the checksum
	}
	require.Equal(t, Damaged, r.Outcome, "%s, byte %d", name, at)
	for _, f := range r.Findings {
		if f.File == name && f.Severity == SeverityDamage && f.Offset <= at && (f.Length == 0 || at <= f.Offset+f.Length) {
			return
		}
	}
	t.Fatalf("%s is damaged at byte %d, found was %+v", name, at, r.Findings)
}

// The same without the mark of a graceful stop, and without Verify: whatever the bytes are there is an answer,
// also for every file by itself.
func TestEveryByteQuickly(t *testing.T) {
	m := fixture(t).without("clean")
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range m.names() {
		if name[len(name)-1] == '/' || len(m.bytes(name)) == 0 {
			continue
		}
		for range 80 {
			b := bytes.Clone(m.bytes(name))
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
			b = b[:len(b)-rng.IntN(1+min(len(b), rng.IntN(60)+1))]
			other := m.with(name, b)
			for _, at := range []string{"/", "/" + name, "/topics", "/topics/orders", "/topics/orders/p00000", "/ingress/produce", "/metastore"} {
				r, err := other.run(at, Options{Records: rng.IntN(2) == 0, Limit: 1 + rng.IntN(5)})
				require.NoError(t, err)
				require.NoError(t, r.WriteText(io.Discard))
			}
		}
	}
}

// Made-up bytes under every name and by every magic.
func FuzzFile(f *testing.F) {
	m := fixture(f)
	names := []string{wal1, wal2, pointFile, log1, log2, aheadPath, levelPath, idFile, snapFile, jourFile, "clean"}
	for i, name := range names {
		f.Add(uint8(i), m.bytes(name))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		name := names[int(which)%len(names)]
		m := *m
		m.t = t
		for _, other := range []*memory{m.with(name, b), m.with(name, b).without("clean")} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := other.verify()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20+64*len(b)))
			require.NoError(t, r.WriteText(io.Discard))
			for _, f := range r.Findings {
				require.NotEmpty(t, f.What)
				require.NotEmpty(t, f.Effect)
				require.LessOrEqual(t, f.Offset, max(int64(len(b)), 16<<10), f.What)
			}
		}
		r, err := m.with("strange", b).run("/strange", Options{Records: true})
		if err == nil {
			require.NoError(t, r.WriteText(io.Discard))
		}
	})
}

// Sizes that a header announces are not believed before they are seen: nothing large is allocated for a small file.
func TestNoStormOfAllocations(t *testing.T) {
	m := fixture(t)
	for _, name := range []string{wal1, wal2, log1, log2, aheadPath, snapFile, jourFile} {
		good := m.bytes(name)
		for i := 0; i+4 <= min(len(good), 80); i++ {
			for _, v := range []uint32{0xffffffff, 0x7fffffff, 16 << 20, 0x00ffffff, 0x01000000} {
				b := bytes.Clone(good)
				binary.BigEndian.PutUint32(b[i:], v)
				other := m.with(name, b)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				other.verify()
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), "%s, %x at byte %d", name, v, i)
			}
		}
	}
}

// repeated is a large file made of few bytes: one block again and again, with the numbers set.
type repeated struct {
	block  []byte
	n      int64
	number func(block []byte, i int64)
	broken int64 // block whose last byte is wrong, -1: none
}

func (r repeated) Size() int64 { return int64(len(r.block)) * r.n }

func (r repeated) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		i := off / int64(len(r.block))
		if i >= r.n {
			return n, io.EOF
		}
		b := bytes.Clone(r.block)
		r.number(b, i)
		if i == r.broken {
			b[len(b)-1] ^= 1
		}
		c := copy(p[n:], b[off%int64(len(b)):])
		n += c
		off += int64(c)
	}
	return n, nil
}

// liveBytes runs fn and returns how far the heap grew at any report of progress.
func peakHeap(t *testing.T, m *memory, o Options) (*Report, uint64) {
	var peak uint64
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	start := s.HeapAlloc
	o.Progress = func(done, total int64, file string) {
		require.LessOrEqual(t, done, total)
		runtime.GC()
		runtime.ReadMemStats(&s)
		peak = max(peak, s.HeapAlloc)
	}
	r, err := m.run("/", o)
	require.NoError(t, err)
	require.NotZero(t, peak, "no progress was told")
	return r, peak - min(peak, start)
}

// Files beyond 64 MiB are streamed, also when they are damaged.
func TestLargeFilesAreStreamed(t *testing.T) {
	payload := bytes.Repeat([]byte("x"), 64<<10)
	produce := record.AppendProduce(nil, record.Produce{Topic: "orders", Incarnation: fixtureID, CreatedMs: baseMs, Payload: payload})
	walFile := repeated{block: record.AppendWALFrame(nil, 5, produce), n: 1200, broken: -1,
		number: func(b []byte, i int64) { binary.BigEndian.PutUint64(b[8:], uint64(5+i)) }}
	logFile := repeated{block: record.AppendFrame(nil, 6, record.AppendRecord(nil, nil, baseMs+100, payload)), n: 1200, broken: -1,
		number: func(b []byte, i int64) {
			binary.BigEndian.PutUint64(b[7:], uint64(6+i))
			binary.BigEndian.PutUint32(b[23:], record.UpdateFrameCRC(record.HeaderFrameCRC(b), b[record.FrameHeaderSize:]))
		}}
	for _, broken := range []int64{-1, 3, 1199} {
		walFile.broken, logFile.broken = broken, broken
		m := fixture(t).withContent(wal2, walFile).withContent(log2, logFile)
		r, peak := peakHeap(t, m, Options{Verify: true})
		require.Less(t, peak, uint64(48<<20), "block %d broken", broken)
		if broken < 0 {
			require.Empty(t, r.Findings)
			continue
		}
		requireFound(t, r, wal2, (broken+1)*int64(len(walFile.block))-1)
		requireFound(t, r, log2, (broken+1)*int64(len(logFile.block))-1)
	}
}

// Contents made to look like very many frames behind damage do not make the search endless.
func TestSearchHasABudget(t *testing.T) {
	h := record.AppendWALFrame(nil, 1, []byte{0})
	binary.BigEndian.PutUint32(h[4:], 1<<20)
	trap := bytes.Repeat(h, 100_000)
	for i := 0; i+len(h) <= len(trap); i += len(h) {
		binary.BigEndian.PutUint64(trap[i+8:], uint64(5+i/len(h)))
	}
	trap[0] = 'x'
	r := fixture(t).with(wal2, trap).verify()
	require.Contains(t, codes(r), "search-given-up")
}

// A frame in a payload is not taken for one of the log.
func TestFrameInsideAPayload(t *testing.T) {
	inner := walBytes(6, 1)
	b := record.AppendWALFrame(nil, 5, record.AppendProduce(nil, record.Produce{Topic: "orders", Incarnation: fixtureID, Payload: inner}))
	next := int64(len(b))
	b = append(b, walBytes(6, 3)...)
	b[25] ^= 1
	r := fixture(t).with(wal2, b).verify()
	require.Len(t, r.Findings, 1)
	require.Equal(t, next, r.Findings[0].Length, "up to the frame that follows, not to the one inside")
}

func codes(r *Report) (list []string) {
	for _, f := range r.Findings {
		list = append(list, f.Code)
	}
	return list
}

var _ vfs.FS = (*memory)(nil)
