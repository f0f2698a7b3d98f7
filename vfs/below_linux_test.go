package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What one walk of the kernel finds is what is found directory by directory; over a link, and out of the root, it finds nothing.
func TestBelow(t *testing.T) {
	outside, path := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(path, "a", "b", "f"), []byte("xyz"), 0o600))
	for link, to := range map[string]string{
		"in": "a/b", "a/in": "b", "a/b/link": "f", "out": outside, "a/out": "../../" + filepath.Base(outside), "a/up": "..", "a/loop": "loop", "a/gone": "nothing",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(path, link)))
	}
	opened, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	d := opened.(*osDir)
	defer d.Close()

	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH})
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a sandbox that knows no better
		t.Skip("this kernel walks no path below a directory")
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	found, walked := 0, 0
	for _, name := range []string{
		"a/b", "a/b/f", "in/f", "a/in", "a/in/f", "a/b/link", "a/up/a/b/f", "out/f", "a/out/f", "a/loop/f", "a/gone/f", "a/b/none", "a/b/f/g", "none/f",
	} {
		var want Info
		slow := d.atParent(name, func(parent *os.File, base string) (err error) {
			want, err = statAt(parent, base)
			return err
		})
		info, ok := d.statBelow(name)
		if ok {
			walked++
			require.NoError(t, slow, name)
			require.Equal(t, want, info, name)
		}
		got, err := d.Stat(name)
		if err != nil {
			require.ErrorIs(t, err, cause(escapeIsInvalid(slow)), name)
		} else {
			found++
			require.Equal(t, want, got, name)
		}
		var f *os.File
		err = d.atParent(name, func(parent *os.File, base string) (err error) {
			f, err = openIn(parent, base, name)
			return err
		})
		fast, ok := d.openBelow(name)
		if err == nil {
			defer f.Close()
		}
		if ok {
			require.NoError(t, err, name)
			one, err := handleID(f)
			require.NoError(t, err)
			two := fast.ID()
			require.Equal(t, one, two, name)
			require.NoError(t, fast.Close())
		}
	}
	require.Equal(t, 7, found)
	require.Equal(t, 4, walked, "a/b, a/b/f and the links a/in and a/b/link themselves")
}
