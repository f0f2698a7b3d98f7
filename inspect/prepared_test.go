package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/wal"
)

// preparedWAL is a segment of the ingress log whose file was made ahead.
func preparedWAL(frames []byte, limit int) []byte {
	b := make([]byte, limit)
	copy(b, frames)
	return record.AppendWALTrailer(b, int64(limit))
}

// Zeros and the trailer behind the frames are no damage, in the newest segment and in one whose trimming was undone.
func TestPreparedSegments(t *testing.T) {
	m := fixture(t).without("clean")
	one, two := m.bytes(wal1), m.bytes(wal2)
	before := m.verify()
	for _, limit := range []int{4 * walFrame, 4*walFrame + 5, 1000, 40_000} {
		for name, frames := range map[string][]byte{wal1: one, wal2: two} { // order-free: one tree for each
			r := m.with(name, preparedWAL(frames, limit)).verify()
			require.Equal(t, before.Findings, r.Findings, "%s limit %d", name, limit)
			r, err := m.with(name, preparedWAL(frames, limit)).run(name, Options{})
			require.NoError(t, err)
			require.Equal(t, before.Findings, r.Findings)
			require.EqualValues(t, limit-4*walFrame+record.WALTrailerSize, r.Root.WAL.Prepared)
			require.EqualValues(t, 4*walFrame, r.Root.WAL.End)
			require.Contains(t, r.Root.Summary, "prepared for more")
		}
	}
	r := m.with(wal2, preparedWAL(two[:4*walFrame-3], 1000)).verify()
	require.Equal(t, []string{"wal-torn-tail"}, codes(r))
	require.EqualValues(t, 3*walFrame, r.Findings[0].Offset)
	require.Contains(t, r.Findings[0].Effect, "cuts 76 bytes off")
	require.NotContains(t, r.Findings[0].What, "full length")
	r = m.with(wal1, preparedWAL(one[:3*walFrame], 1000)).verify()
	require.Contains(t, codes(r), "wal-chain")
}

// The verdict on a prepared segment is the broker's, whichever byte is wrong, and wherever a write was torn.
func TestVerdictOnPreparedSegments(t *testing.T) {
	m := fixture(t).without("clean")
	file := preparedWAL(m.bytes(wal2), 700)
	check := func(b []byte, what string, i int) {
		d := openDir(t, t.TempDir())
		for _, name := range []string{wal1, wal2, pointFile} {
			content := m.bytes(name)
			if name == wal2 {
				content = b
			}
			f, err := d.Create(name[strings.LastIndexByte(name, '/')+1:])
			require.NoError(t, err)
			_, err = f.WriteAt(content, 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		l, err := wal.Open(env.OS(), d, wal.Options{})
		r := m.with(wal2, b).verify()
		refuses := false
		for _, f := range r.Findings {
			refuses = refuses || f.Severity == SeverityDamage && strings.Contains(f.Effect, "refuses to start")
		}
		require.Equal(t, err != nil, refuses, "%s at %d: %v; %+v", what, i, err, r.Findings)
		if err == nil {
			require.NoError(t, l.Close())
		}
	}
	for i := 0; i < len(file); i += 1 + i/walFrame/4*7 {
		b := bytes.Clone(file)
		b[i] ^= 0x41
		check(b, "flipped", i)
	}
	for size := 0; size < 4*walFrame; size += 3 {
		check(preparedWAL(m.bytes(wal2)[:size], 700), "torn", size)
	}
}
