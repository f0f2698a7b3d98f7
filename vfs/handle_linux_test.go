package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// both opens one file of a directory below the root twice: as an os.File, and by a descriptor of its own.
func both(t *testing.T, contents string) (plain, own File) {
	path := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a"), 0o700))
	for _, name := range []string{"plain", "own"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, "a", name), []byte(contents), 0o600))
	}
	root, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	f, err := root.(*osDir).openNoFollow("a/plain")
	require.NoError(t, err)
	plain, err = newFile(f)
	require.NoError(t, err)
	own, ok := root.(*osDir).openBelow("a/own")
	if !ok {
		plain.Close()
		t.Skip("this kernel walks no path below a directory")
	}
	return plain, own
}

// Whatever is done, in whatever order, a file answers what an os.File answers, in bytes, counts, sizes and kinds of errors.
func TestHandleIsAFile(t *testing.T) {
	plain, own := both(t, "0123456789")
	type answer struct {
		n       int64
		b       string
		err     bool
		eof     bool
		closed  bool
		invalid bool
		op      string
	}
	told := func(n int64, b []byte, err error) answer {
		a := answer{n: n, b: string(b), err: err != nil, eof: err == io.EOF, closed: errors.Is(err, fs.ErrClosed), invalid: errors.Is(err, fs.ErrInvalid)}
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			a.op = p.Op
		}
		return a
	}
	read := func(n int, at int64) func(f File) answer {
		return func(f File) answer {
			b := make([]byte, n)
			m, err := f.ReadAt(b, at)
			return told(int64(m), b, err)
		}
	}
	write := func(s string, at int64) func(f File) answer {
		return func(f File) answer {
			n, err := f.WriteAt([]byte(s), at)
			return told(int64(n), nil, err)
		}
	}
	synced := func(s string, at int64) func(f File) answer {
		return func(f File) answer { return told(0, nil, f.(SyncWriter).WriteAtSync([]byte(s), at)) }
	}
	size := func(f File) answer {
		n, err := f.Size()
		return told(n, nil, err)
	}
	sizing := func(set func(f File, n int64) error, n int64) func(f File) answer {
		return func(f File) answer { return told(0, nil, set(f, n)) }
	}
	steps := []func(f File) answer{
		read(4, 2), read(10, 0), read(11, 0), read(4, 8), read(1, 10), read(1, 100), read(0, 3), read(0, 100), read(1, -1), read(0, -1),
		write("abc", 1), read(10, 0), write("", 3), write("", -1), write("x", -1), write("tail", 20), size, read(24, 0),
		synced("SYNC", 2), read(10, 0), synced("", 5), synced("far", 40), size, synced("x", -1),
		sizing(File.Truncate, 5), size, read(5, 0), sizing(File.Truncate, 9), read(9, 0), sizing(File.Truncate, -1),
		sizing(File.Preallocate, 4096), size, sizing(File.Preallocate, 0), sizing(File.Preallocate, 100), size, sizing(File.Preallocate, -1),
		func(f File) answer { return told(0, nil, f.Sync()) },
		func(f File) answer { return told(0, nil, f.Close()) },
		func(f File) answer { return told(0, nil, f.Close()) },
		read(1, 0), write("x", 0), synced("x", 0), size, sizing(File.Truncate, 1), sizing(File.Preallocate, 1),
		func(f File) answer { return told(0, nil, f.Sync()) },
	}
	refused := 0
	for i, step := range steps {
		want, got := step(plain), step(own)
		require.Equal(t, want, got, "step %d", i)
		if got.err && !got.eof {
			refused++
		}
	}
	require.Equal(t, 15, refused)
}

// A descriptor is given back once, after the last call that uses it: were it sooner, a call could read another file.
func TestHandleIsClosedAfterItsCalls(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(path, "a"), 0o700))
	const files = 8
	for i := range files {
		require.NoError(t, os.WriteFile(filepath.Join(path, "a", fmt.Sprint(i)), []byte{byte(i)}, 0o600))
	}
	root, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer root.Close()
	before := openFiles(t)
	var all sync.WaitGroup
	for i := range files {
		all.Go(func() {
			for range 300 {
				f, err := root.Open(fmt.Sprintf("a/%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				var readers sync.WaitGroup
				for range 2 {
					readers.Go(func() {
						for {
							var b [1]byte
							_, err := f.ReadAt(b[:], 0)
							if errors.Is(err, fs.ErrClosed) {
								return
							}
							if err != nil || b[0] != byte(i) {
								t.Errorf("read %d of file %d: %v", b[0], i, err)
								return
							}
						}
					})
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				readers.Wait()
			}
		})
	}
	all.Wait()
	require.Equal(t, before, openFiles(t))
}

// A write that the kernel cuts short goes on behind what it took.
func TestHandleShortWrites(t *testing.T) {
	_, own := both(t, "")
	defer own.Close()
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	limit := func(to uint64) (before uint64) {
		var l unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &l))
		before, l.Cur = l.Cur, to
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
		return before
	}
	before := limit(6)
	n, err := own.WriteAt([]byte("abcdefgh"), 0)
	synced := own.(SyncWriter).WriteAtSync([]byte("ABCDEFGH"), 0)
	limit(before)
	require.Equal(t, 6, n)
	require.ErrorIs(t, err, unix.EFBIG)
	require.ErrorIs(t, synced, unix.EFBIG)
	b := make([]byte, 9)
	n, _ = own.ReadAt(b, 0)
	require.Equal(t, "ABCDEF", string(b[:n]))
}

// Where no call writes and syncs at once, what is left of the bytes is written behind those that are there.
func TestWriteAndSyncInTurn(t *testing.T) {
	_, own := both(t, "abc....")
	defer own.Close()
	require.NoError(t, orInTurn(own, []byte("abcdef"), 0, 3, unix.EOPNOTSUPP))
	b := make([]byte, 7)
	_, err := own.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "abcdef.", string(b))
	require.ErrorIs(t, orInTurn(own, []byte("x"), 0, 0, unix.EIO), unix.EIO, "another failure is one")
}

// A call that a signal interrupts is made again, and Sync is one that reaches the kernel: a pipe refuses it.
func TestHandleCalls(t *testing.T) {
	_, own := both(t, "")
	defer own.Close()
	calls := 0
	require.NoError(t, own.(*handle).call("read", func(int) error {
		calls++
		return map[bool]error{true: unix.EINTR}[calls == 1]
	}))
	require.Equal(t, 2, calls)

	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	defer unix.Close(ends[1])
	pipe := &handle{fd: ends[0]}
	require.ErrorIs(t, pipe.Sync(), unix.EINVAL)
	require.NoError(t, pipe.Close())
}

// openFiles is how many descriptors the process has.
func openFiles(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}
