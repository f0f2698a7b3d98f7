package segment

import (
	"fmt"
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
