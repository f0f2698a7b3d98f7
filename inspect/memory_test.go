package inspect

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

// memory is a tree of files in memory, for thousands of runs on damaged copies. Every change is a failure of
// the test, and so is a lock that somebody made.
type memory struct {
	t     testing.TB
	files map[string]content // by path below "/"; a path that ends in "/" is a directory
	held  bool               // a broker holds the lock
}

type content interface {
	io.ReaderAt
	Size() int64
}

// plain is contents in memory; a read that reaches bad fails.
type plain struct {
	b   []byte
	bad int // -1: none
}

func (p plain) Size() int64 { return int64(len(p.b)) }

func (p plain) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(p.b)) {
		return 0, io.EOF
	}
	n := copy(b, p.b[off:])
	if p.bad >= 0 && off+int64(n) > int64(p.bad) {
		return max(0, p.bad-int(off)), syscall.EIO
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// load copies a tree of the real disk.
func load(t testing.TB, dir string) *memory {
	m := &memory{t: t, files: map[string]content{}}
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			return err
		case e.IsDir() && rel != ".":
			m.files[filepath.ToSlash(rel)+"/"] = plain{}
		case !e.IsDir():
			b, err := os.ReadFile(p)
			m.files[filepath.ToSlash(rel)] = plain{b, -1}
			return err
		}
		return nil
	}))
	return m
}

// with returns the tree with other contents of one file.
func (m *memory) with(name string, b []byte) *memory {
	return m.withContent(name, plain{b, -1})
}

func (m *memory) withContent(name string, c content) *memory {
	other := *m
	other.files = maps.Clone(m.files)
	other.files[name] = c
	return &other
}

// without returns the tree without a file, or a directory and all below it.
func (m *memory) without(name string) *memory {
	other := *m
	other.files = maps.Clone(m.files)
	maps.DeleteFunc(other.files, func(p string, _ content) bool {
		return p == name || strings.HasPrefix(p, strings.TrimSuffix(name, "/")+"/")
	})
	return &other
}

// renamed returns the tree with another name of one file.
func (m *memory) renamed(name, other string) *memory {
	return m.withContent(other, m.files[name]).without(name)
}

func (m *memory) bytes(name string) []byte {
	c, ok := m.files[name].(plain)
	require.True(m.t, ok, "no file %s", name)
	return c.b
}

// names lists the files in order.
func (m *memory) names() []string { return slices.Sorted(maps.Keys(m.files)) }

// run inspects a path of the tree.
func (m *memory) run(at string, o Options) (*Report, error) {
	return Run(env.OS().WithFS(m), at, o)
}

// verify inspects the whole tree in full.
func (m *memory) verify() *Report {
	m.t.Helper()
	r, err := m.run("/", Options{Verify: true})
	require.NoError(m.t, err)
	return r
}

func (m *memory) OpenRoot(p string, create bool) (vfs.Dir, error) {
	if create {
		m.t.Error("a directory was to be made")
	}
	return memoryDir{m, ""}.OpenDir(strings.TrimPrefix(p, "/"))
}

type memoryDir struct {
	m  *memory
	at string // "" or "dir/"
}

func (d memoryDir) OpenDir(name string) (vfs.Dir, error) {
	p := d.at + name
	if p == "" {
		return d, nil
	}
	if _, ok := d.m.files[p+"/"]; !ok {
		if _, ok := d.m.files[p]; ok {
			return nil, &fs.PathError{Op: "open", Path: p, Err: syscall.ENOTDIR}
		}
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	return memoryDir{d.m, p + "/"}, nil
}

func (d memoryDir) Open(name string) (vfs.File, error) {
	c, ok := d.m.files[d.at+name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: d.at + name, Err: fs.ErrNotExist}
	}
	return memoryFile{d.m, c}, nil
}

func (d memoryDir) Stat(name string) (vfs.Info, error) {
	if c, ok := d.m.files[d.at+name]; ok {
		return vfs.Info{Name: path.Base(name), Size: c.Size()}, nil
	}
	if _, ok := d.m.files[d.at+name+"/"]; ok {
		return vfs.Info{Name: path.Base(name), Dir: true}, nil
	}
	return vfs.Info{}, &fs.PathError{Op: "stat", Path: d.at + name, Err: fs.ErrNotExist}
}

func (d memoryDir) List() (list []vfs.Info, err error) {
	for _, p := range d.m.names() {
		rest, ok := strings.CutPrefix(p, d.at)
		name := strings.TrimSuffix(rest, "/")
		if ok && name != "" && !strings.Contains(name, "/") {
			list = append(list, vfs.Info{Name: name, Dir: strings.HasSuffix(rest, "/"), Size: d.m.files[p].Size()})
		}
	}
	slices.SortFunc(list, func(a, b vfs.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (d memoryDir) Lock(name string) (io.Closer, error) {
	if d.m.held {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: vfs.ErrLocked}
	}
	return io.NopCloser(nil), nil
}

func (d memoryDir) ID() vfs.ID   { return vfs.ID{Inode: 1} }
func (d memoryDir) Close() error { return nil }

func (d memoryDir) changed() error {
	d.m.t.Error("something was changed in " + d.at)
	return fs.ErrInvalid
}

func (d memoryDir) Mkdir(string) error                 { return d.changed() }
func (d memoryDir) Create(string) (vfs.File, error)    { return nil, d.changed() }
func (d memoryDir) Rename(source, target string) error { return d.changed() }
func (d memoryDir) Remove(string) error                { return d.changed() }
func (d memoryDir) Sync() error                        { return d.changed() }

type memoryFile struct {
	m *memory
	content
}

func (f memoryFile) Size() (int64, error) { return f.content.Size(), nil }
func (f memoryFile) ID() vfs.ID           { return vfs.ID{Inode: 2} }
func (f memoryFile) Close() error         { return nil }

func (f memoryFile) WriteAt([]byte, int64) (int, error) { return 0, memoryDir{f.m, ""}.changed() }
func (f memoryFile) Sync() error                        { return memoryDir{f.m, ""}.changed() }
func (f memoryFile) Truncate(int64) error               { return memoryDir{f.m, ""}.changed() }
func (f memoryFile) Preallocate(int64) error            { return memoryDir{f.m, ""}.changed() }
