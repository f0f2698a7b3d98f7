package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/segment"
)

// LOG-09, RET-04: what a broker refuses for the bounds of a log is damage, with the file that the operator removes named; bounds that
// do not count are a note.
func TestBounds(t *testing.T) {
	log := func(base int) string { return fmt.Sprintf("%020d.log", base) }
	for _, c := range []struct {
		code   string
		damage func(dir string)
	}{
		{"", func(string) {}},
		{"bounds-ignored", func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, segment.BoundsFile))
			require.NoError(t, err)
			b[20] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(dir, segment.BoundsFile), b, 0o600))
		}},
		{"log-end-missing", func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, log(6)))
			require.NoError(t, err)
			h, err := record.ParseFrameHeader(b)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(filepath.Join(dir, log(6)), h.Size()))
		}},
		{"log-oldest-missing", func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, log(0)))) }},
		{"log-other-frame", func(dir string) {
			var w record.FrameWriter
			w.Reset(nil, 6, record.CodecNone)
			w.AddRecord(nil, 1, []byte("x"))
			w.AddRecord(nil, 1, []byte("y"))
			b, err := w.Finish()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, log(6)), b, 0o600))
		}},
	} {
		t.Run(c.code, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p00000")
			require.NoError(t, os.Mkdir(path, 0o700))
			l, err := segment.Open(env.OS(), openDir(t, path), segment.Options{SegmentBytes: 300, Identity: 5})
			require.NoError(t, err)
			for range 8 {
				_, err := l.Commit([]segment.Record{{Payload: make([]byte, 70)}})
				require.NoError(t, err)
			}
			require.NoError(t, l.Close())
			require.FileExists(t, filepath.Join(path, log(6)))
			c.damage(path)
			r, err := Run(env.OS(), path, Options{Verify: true})
			require.NoError(t, err)
			codes := map[string]Finding{}
			for _, f := range r.Findings {
				codes[f.Code] = f
			}
			if c.code == "" {
				require.Equal(t, Clean, r.Outcome, "%+v", r.Findings)
				require.Empty(t, codes)
				return
			}
			require.Contains(t, codes, c.code)
			require.Equal(t, c.code != "bounds-ignored", r.Outcome == Damaged)
			_, err = segment.Open(env.OS(), openDir(t, path), segment.Options{Identity: 5})
			require.Equal(t, c.code != "bounds-ignored", err != nil)
			if err != nil {
				require.Contains(t, codes[c.code].Effect, segment.BoundsFile)
			}
		})
	}
}

// LOG-11: a sealed segment that is not the one its index was made for is damage, as it is for a broker that reads it.
func TestExchangedSegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p00000")
	require.NoError(t, os.Mkdir(path, 0o700))
	o := segment.Options{SegmentBytes: 300, Identity: 5}
	l, err := segment.Open(env.OS(), openDir(t, path), o)
	require.NoError(t, err)
	for range 8 {
		_, err := l.Commit([]segment.Record{{Payload: make([]byte, 70)}})
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	var b []byte
	for base := range int64(3) {
		var w record.FrameWriter
		w.Reset(b, base, record.CodecNone)
		w.AddRecord(nil, 1, make([]byte, 70))
		b, err = w.Finish()
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(path, fmt.Sprintf("%020d.log", 0)), b, 0o600))
	r, err := Run(env.OS(), path, Options{Verify: true})
	require.NoError(t, err)
	require.Equal(t, Damaged, r.Outcome)
	codes := map[string]Finding{}
	for _, f := range r.Findings {
		codes[f.Code] = f
	}
	require.Contains(t, codes, "log-other-segment")
	require.Contains(t, codes["log-other-segment"].Effect, fmt.Sprintf("%020d.idx", 0))
	l, err = segment.Open(env.OS(), openDir(t, path), o)
	require.NoError(t, err)
	_, err = l.Read(0)
	require.ErrorIs(t, err, segment.ErrOtherSegment)
	_, err = l.Read(3)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
