package segment

import (
	"fmt"
	"testing"

	"narad/env"
)

// BenchmarkCommit commits on the real file system, so it measures mostly the sync.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir, _ := realDir(b)
			l := open(b, dir.Dir, Options{})
			r := recs(0, n, 1000)
			b.SetBytes(int64(n * 1000))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Commit(r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkBounds is what a commit pays for saying how far it came: to be compared with BenchmarkCommit.
func BenchmarkBounds(b *testing.B) {
	dir, _ := realDir(b)
	l := open(b, dir.Dir, Options{})
	commit(b, l, 0, recs(0, 1, 1000)...)
	b.ReportAllocs()
	for end := int64(2); b.Loop(); end++ {
		l.bounds.reach(end, true, 1)
	}
	l.bounds.now.End, l.bounds.late = 1, false
}

// BenchmarkCommitParallel commits one record each from many callers, who share syncs.
func BenchmarkCommitParallel(b *testing.B) {
	dir, _ := realDir(b)
	l := open(b, dir.Dir, Options{})
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		r := recs(0, 1, 1000)
		for p.Next() {
			if _, err := l.Commit(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func fill(b *testing.B, frame, records int, o Options) hooked {
	dir, _ := memDir(b) // syncs cost nothing here
	l := open(b, dir.Dir, o)
	for i := 0; i < records; i += frame {
		if _, err := l.Commit(recs(i, frame, 1000)); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

func BenchmarkSequentialRead(b *testing.B) {
	for _, frame := range []int{1, 64} {
		b.Run(fmt.Sprintf("frame=%d", frame), func(b *testing.B) {
			const n = 16384
			dir := fill(b, frame, n, Options{SegmentBytes: 4 << 20})
			l := open(b, dir.Dir, Options{})
			b.SetBytes(1000)
			b.ReportAllocs()
			off := int64(0)
			for b.Loop() {
				if _, err := l.Read(off % n); err != nil {
					b.Fatal(err)
				}
				off++
			}
		})
	}
}

// BenchmarkOpen shows that opening costs the newest segment, not the log.
func BenchmarkOpen(b *testing.B) {
	for _, segments := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("segments=%d", segments), func(b *testing.B) {
			const size = 1 << 20
			dir := fill(b, 64, segments*1024, Options{SegmentBytes: size})
			b.ReportAllocs()
			for b.Loop() {
				l, err := Open(env.OS(), dir.Dir, Options{SegmentBytes: size})
				if err != nil {
					b.Fatal(err)
				}
				l.Close()
			}
		})
	}
}
