//go:build unix

package vfs_test

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// outside returns a pinned empty directory, its path, and the path of a file that lies outside of it.
func outside(t *testing.T) (d vfs.Dir, path, secret string) {
	path = t.TempDir()
	secret = filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	d, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d, path, secret
}

func TestOSFinalLinkIsNotFollowed(t *testing.T) {
	d, path, secret := outside(t)
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o600))
	for name, leadsTo := range map[string]string{"in": "f", "out": secret, "dangling": "none"} {
		require.NoError(t, os.Symlink(leadsTo, filepath.Join(path, name)))

		_, err := d.Open(name)
		require.ErrorIs(t, err, syscall.ELOOP, name)
		_, err = d.Lock(name)
		require.ErrorIs(t, err, syscall.ELOOP, name)
		_, err = d.Create(name)
		require.ErrorIs(t, err, fs.ErrExist, name)
		info, err := d.Stat(name)
		require.NoError(t, err)
		require.False(t, info.Dir)

		target, err := os.Readlink(filepath.Join(path, name))
		require.NoError(t, err)
		require.Equal(t, leadsTo, target, "nothing replaced the link")
	}
	_, err := os.Stat(filepath.Join(path, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing was made at the end of a dangling link")
}

func TestOSLinkCannotLeadOut(t *testing.T) {
	d, path, secret := outside(t)
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(path, "absolute")))
	require.NoError(t, os.Symlink("../"+filepath.Base(filepath.Dir(path)), filepath.Join(path, "relative")))
	require.NoError(t, os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o600))
	for _, link := range []string{"absolute", "relative"} {
		_, err := d.OpenDir(link)
		require.ErrorIs(t, err, fs.ErrInvalid)
		for call, fn := range map[string]func(name string) error{
			"Open":   func(name string) error { _, err := d.Open(name); return err },
			"Create": func(name string) error { _, err := d.Create(name); return err },
			"Stat":   func(name string) error { _, err := d.Stat(name); return err },
			"Lock":   func(name string) error { _, err := d.Lock(name); return err },
			"Mkdir":  d.Mkdir,
			"Remove": d.Remove,
			"source": func(name string) error { return d.Rename(name, "stolen") },
			"target": func(name string) error { return d.Rename("f", name) },
		} {
			require.ErrorIs(t, fn(link+"/secret"), fs.ErrInvalid, "%s through %s", call, link)
		}
	}
	left, err := os.ReadDir(filepath.Dir(secret))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestOSRemoveAllDoesNotFollowLinks(t *testing.T) {
	d, path, secret := outside(t)
	require.NoError(t, d.Mkdir("a"))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(path, "a", "link")))
	require.NoError(t, vfs.RemoveAll(d, "a"))
	_, err := os.Stat(secret)
	require.NoError(t, err)
}

func TestOSPermissions(t *testing.T) {
	base := t.TempDir()
	d, err := vfs.OS{}.OpenRoot(base+"/a/b", true)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Create("f")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l, err := d.Lock("lock")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, d.Mkdir("sub"))
	for name, want := range map[string]fs.FileMode{
		"a": vfs.DirMode, "a/b": vfs.DirMode, "a/b/sub": vfs.DirMode, "a/b/f": vfs.FileMode, "a/b/lock": vfs.FileMode,
	} {
		info, err := os.Stat(filepath.Join(base, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
}

// A named pipe would block a plain open until somebody opens the other end.
func TestOSPipeIsRefused(t *testing.T) {
	d, path, _ := outside(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(path, "pipe"), 0o600))
	_, err := d.Open("pipe")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = d.Lock("pipe")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = d.OpenDir("pipe")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = d.Stat("pipe/f")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = d.Open("pipe/f")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorIs(t, d.Rename("pipe/f", "no/f"), syscall.ENOTDIR)
}

// The errors of the system stay reachable below what the package adds.
func TestOSErrorsKeepTheirCause(t *testing.T) {
	d := fresh(t)
	require.NoError(t, d.Mkdir("a"))
	require.NoError(t, d.Mkdir("b"))
	f, err := d.Create("b/f")
	require.NoError(t, err)
	defer f.Close()

	_, err = d.Open("a")
	require.ErrorIs(t, err, syscall.EISDIR)
	_, err = d.OpenDir("b/f")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorIs(t, d.Rename("a", "b/f"), syscall.ENOTDIR)
	require.ErrorIs(t, d.Rename("a", "a/b"), syscall.EINVAL)
	require.ErrorIs(t, d.Remove("b"), syscall.ENOTEMPTY)
	require.ErrorIs(t, f.Preallocate(1<<62), syscall.EFBIG)

	var path *fs.PathError
	_, err = d.Open("no/f")
	require.ErrorAs(t, err, &path)
	require.Equal(t, "no/f", path.Path)
	var link *os.LinkError
	require.ErrorAs(t, d.Rename("no", "c"), &link)
	require.Equal(t, [2]string{"no", "c"}, [2]string{link.Old, link.New})
}

const lockInChild = "NARAD_TEST_LOCK_IN"

// A lock holds against other processes and ends with the one that took it, however that dies.
func TestOSLockBetweenProcesses(t *testing.T) {
	if dir := os.Getenv(lockInChild); dir != "" {
		holdLock(dir)
	}
	path := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestOSLockBetweenProcesses$")
	child.Env = append(os.Environ(), lockInChild+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	in, err := child.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)

	d, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Lock("lock")
	require.ErrorIs(t, err, vfs.ErrLocked)

	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	l, err := d.Lock("lock")
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// holdLock is the child: it takes the lock, says so, and waits to be killed.
func holdLock(dir string) {
	d, err := vfs.OS{}.OpenRoot(dir, false)
	if err == nil {
		_, err = d.Lock("lock")
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
