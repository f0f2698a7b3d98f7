package wal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

func openDir(t testing.TB, path string) vfs.Dir {
	t.Helper()
	d, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	return d
}

func TestSmoke(t *testing.T) {
	path := t.TempDir()
	e := env.OS()
	for round := range 3 {
		l, err := Open(e, openDir(t, path), Options{SegmentBytes: 1000, IdleRollBytes: 100, Event: func(ev Event) { t.Logf("%T %+v", ev, ev) }})
		require.NoError(t, err)
		require.EqualValues(t, 1+round*20, l.Next())
		for i := range 10 {
			first, err := l.Append([]byte(fmt.Sprintf("record %d.%d", round, i)), make([]byte, 100))
			require.NoError(t, err)
			require.EqualValues(t, 1+round*20+i*2, first)
		}
		_, from := l.Checkpoint()
		r := l.NewReader(from)
		for seq := from; seq < l.Next(); seq++ {
			got, _, ok, err := r.Next()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, seq, got)
		}
		require.NoError(t, l.SetCheckpoint(uint64(10+round*20)))
		require.NoError(t, l.Close())
	}
}
