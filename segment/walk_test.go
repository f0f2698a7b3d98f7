package segment

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// bigSegment writes a whole segment of frames of n records of 1 KiB each and returns the offset after it.
func bigSegment(t testing.TB, dir vfs.Dir, base, bytes int64, n, size int) int64 {
	f, err := dir.Create(fileName(base))
	require.NoError(t, err)
	defer f.Close()
	buf, at, next := []byte(nil), int64(0), base
	flush := func() {
		_, err := f.WriteAt(buf, at)
		require.NoError(t, err)
		at, buf = at+int64(len(buf)), buf[:0]
	}
	payload := make([]byte, size)
	for at+int64(len(buf)) < bytes {
		var w record.FrameWriter
		w.Reset(nil, next, record.CodecNone)
		for range n {
			w.AddRecord(nil, next, payload)
			next++
		}
		b, err := w.Finish()
		require.NoError(t, err)
		if buf = append(buf, b...); len(buf) > 4<<20 {
			flush()
		}
	}
	flush()
	return next
}

// BenchmarkFirstRead reads one record of a sealed segment of 64 MiB that was not read before.
func BenchmarkFirstRead(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("frame=%d", n), func(b *testing.B) {
			dir, _ := realDir(b)
			next := bigSegment(b, dir.Dir, 0, 64<<20, n, 1000)
			bigSegment(b, dir.Dir, next, 100, 1, 10)
			for b.Loop() {
				l, err := Open(env.OS(), dir.Dir, Options{})
				require.NoError(b, err)
				_, err = l.Read(next / 2)
				require.NoError(b, err)
				l.Close()
			}
		})
	}
}

// BenchmarkOpenReal opens logs of full segments on the real file system: only the active one, here half full, counts.
func BenchmarkOpenReal(b *testing.B) {
	for _, segments := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("segments=%d", segments), func(b *testing.B) {
			dir, _ := realDir(b)
			base := int64(0)
			for range segments - 1 { // sealed ones are not looked into: sparse files do
				f, err := dir.Create(fileName(base))
				require.NoError(b, err)
				require.NoError(b, f.Truncate(64<<20))
				require.NoError(b, f.Close())
				base += 64 << 10
			}
			bigSegment(b, dir.Dir, base, 32<<20, 64, 1000)
			before := heap()
			var logs []*Log
			b.ReportAllocs()
			for b.Loop() {
				l, err := Open(env.OS(), dir.Dir, Options{})
				require.NoError(b, err)
				logs = append(logs, l)
			}
			b.ReportMetric(float64(heap()-before)/float64(len(logs)), "live-B/log")
			for _, l := range logs {
				l.Close()
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSequentialReadReal reads records in order from the page cache: frames of one large record, and of many small ones. Each
// shape is read as copies and as views.
func BenchmarkSequentialReadReal(b *testing.B) {
	for _, shape := range []struct{ records, bytes int }{{1, 1 << 20}, {1, 64 << 10}, {1, 1000}, {64, 1000}, {1024, 1000}, {8, 16 << 10}} {
		dir, _ := realDir(b)
		next := bigSegment(b, dir.Dir, 0, 64<<20, shape.records, shape.bytes)
		bigSegment(b, dir.Dir, next, 100, 1, 10)
		l := open(b, dir.Dir, Options{})
		for _, how := range []struct {
			name string
			read func(int64) (Record, error)
		}{{"copy", l.Read}, {"view", l.View}} {
			b.Run(fmt.Sprintf("frame=%dx%d/%s", shape.records, shape.bytes, how.name), func(b *testing.B) {
				b.SetBytes(int64(shape.bytes))
				b.ReportAllocs()
				off := int64(0)
				for b.Loop() {
					if _, err := how.read(off % next); err != nil {
						b.Fatal(err)
					}
					off++
				}
			})
		}
	}
}

// BenchmarkRawRead is what BenchmarkSequentialReadReal is to be compared with: read into fresh memory and checksum it, as much at once as
// a block of small records has, and a large record.
func BenchmarkRawRead(b *testing.B) {
	dir, _ := realDir(b)
	bigSegment(b, dir.Dir, 0, 64<<20, 1, 1<<20)
	f, err := dir.Dir.Open(fileName(0))
	require.NoError(b, err)
	defer f.Close()
	for _, size := range []int64{indexStride, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(size)
			at := int64(0)
			for b.Loop() {
				p := make([]byte, size)
				if _, err := f.ReadAt(p, at%(63<<20)); err != nil {
					b.Fatal(err)
				}
				record.UpdateFrameCRC(0, p)
				at += size
			}
		})
	}
}
