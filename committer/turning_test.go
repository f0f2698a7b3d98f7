package committer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

// turning is a directory in which something happens before and after a file is found in it.
type turning struct {
	vfs.Dir
	before, after func()
}

func (d *turning) StatWithin(dir, base string) (vfs.ID, vfs.ID, error) {
	return d.Dir.(vfs.Walker).StatWithin(dir, base)
}

func (d *turning) OpenWithin(dir, base string) (vfs.File, vfs.ID, error) {
	d.before()
	defer d.after()
	return d.Dir.(vfs.Walker).OpenWithin(dir, base)
}

// COM-41: consumer.offset is overwritten at once only when it was found in the directory of the prime, and the path still leads there.
func TestLevelWhileTheDirectoryTurns(t *testing.T) {
	path := t.TempDir()
	root, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer root.Close()
	if _, ok := root.(vfs.Walker); !ok {
		t.Skip("there is no quick way here")
	}
	require.NoError(t, root.Mkdir("t"))
	blank := make([]byte, offsetSize)
	for _, name := range []string{"p0", "other"} {
		require.NoError(t, root.Mkdir("t/"+name))
		require.NoError(t, os.WriteFile(filepath.Join(path, "t", name, OffsetFile), blank, 0o600))
	}
	move := func(from, to string) {
		require.NoError(t, os.Rename(filepath.Join(path, "t", from), filepath.Join(path, "t", to)))
	}
	out := func() { move("p0", "mine"); move("other", "p0") }
	in := func() { move("p0", "other"); move("mine", "p0") }
	idle := func() {}

	d := &turning{root, idle, idle}
	k, now := part0(0), &still{now: env.Instant(time.Hour)}
	c, err := newCommitter(env.Simulated(now, nil), Options{
		Interval: time.Second, Root: d, MaxOpen: 1, Path: func(Key) string { return "t/p0" },
		State: func(Key, []int64) (State, uint64, bool) { return State{Committed: 7}, 1, true },
		Event: func(Event) {},
	})
	require.NoError(t, err)
	c.Dirty(k)
	for range 2 * c.roster.turns {
		c.tick()
	}
	p := c.roster.parts[k]
	require.Equal(t, int64(7), p.durable)
	for _, turn := range []struct{ before, after func() }{{idle, out}, {out, in}} {
		d.before, d.after = turn.before, turn.after
		done, err := c.levelQuickly(p, false)
		require.NoError(t, err)
		require.False(t, done)
		if _, err := os.Stat(filepath.Join(path, "t", "mine")); err == nil {
			in()
		}
		for _, name := range []string{"p0", "other"} {
			b, err := os.ReadFile(filepath.Join(path, "t", name, OffsetFile))
			require.NoError(t, err)
			require.Equal(t, blank, b)
		}
	}
	d.before, d.after = idle, idle
	done, err := c.levelQuickly(p, false)
	require.NoError(t, err)
	require.True(t, done)
}
