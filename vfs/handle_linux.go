package vfs

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// handle is a regular file that was opened by a descriptor of its own. An os.File asks the poller about each descriptor that it takes
// over, and the collector to close what nobody closed, which is much for a file that is opened for one write.
type handle struct {
	fd   int
	name string
	id   ID
	// uses counts the calls that run; handleClosed is added by Close, and whoever leaves the last then gives the descriptor back.
	uses atomic.Int64
}

const handleClosed = 1 << 32

var errNegative = errors.New("negative offset")

// begin admits a call until the file is closed. What it adds is 1, and handleClosed for the call that closes it.
func (f *handle) begin(op string, adds int64) error {
	for {
		n := f.uses.Load()
		if n >= handleClosed {
			return f.failed(op, fs.ErrClosed)
		}
		if f.uses.CompareAndSwap(n, n+adds) {
			return nil
		}
	}
}

func (f *handle) end() error {
	if f.uses.Add(-1) == handleClosed {
		return unix.Close(f.fd)
	}
	return nil
}

func (f *handle) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// call runs fn on the descriptor, which stays open meanwhile, and names the attempt in its error.
func (f *handle) call(op string, fn func(fd int) error) error {
	if err := f.begin(op, 1); err != nil {
		return err
	}
	defer f.end()
	if err := retry(func() error { return fn(f.fd) }); err != nil {
		return f.failed(op, err)
	}
	return nil
}

func (f *handle) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.failed("readat", errNegative)
	}
	err = f.call("read", func(fd int) error {
		for n < len(p) {
			m, err := unix.Pread(fd, p[n:], off+int64(n))
			if err != nil {
				return err
			}
			if m == 0 {
				break
			}
			n += m
		}
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *handle) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.failed("writeat", errNegative)
	}
	err = f.call("write", func(fd int) error {
		for n < len(p) {
			m, err := unix.Pwrite(fd, p[n:], off+int64(n))
			if err != nil {
				return err
			}
			if m == 0 {
				return io.ErrUnexpectedEOF
			}
			n += m
		}
		return nil
	})
	return n, err
}

func (f *handle) Sync() error { return f.call("sync", unix.Fdatasync) }

// WriteAtSync implements SyncWriter.
func (f *handle) WriteAtSync(p []byte, off int64) error {
	if off < 0 {
		return f.failed("writeat", errNegative)
	}
	var done int
	err := f.call("write and sync", func(fd int) error { return writeSynced(fd, p, off, &done) })
	return orInTurn(f, p, off, done, err)
}

func (f *handle) Truncate(size int64) error {
	return f.call("truncate", func(fd int) error { return unix.Ftruncate(fd, size) })
}

func (f *handle) Preallocate(size int64) error {
	if size < 0 {
		return f.failed("preallocate", fs.ErrInvalid)
	}
	err := f.call("preallocate", func(fd int) error { return allocate(fd, size) })
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return growTo(f, size)
}

func (f *handle) Size() (size int64, err error) {
	err = f.call("stat", func(fd int) error {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		size = st.Size
		return err
	})
	return size, err
}

func (f *handle) ID() ID { return f.id }

func (f *handle) Close() error {
	if err := f.begin("close", 1+handleClosed); err != nil {
		return err
	}
	if err := f.end(); err != nil {
		return f.failed("close", err)
	}
	return nil
}
