package vfstest

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// badNames are empty, absolute, unclean or try to escape.
var badNames = []string{
	"", ".", "..", "/", "/f", "../f", "sub/..", "sub/../f", "sub/../../f", "./f", "sub/./f", "sub//f", "sub/",
	"f\x00", `sub\f`, `..\f`,
}

// onName are the calls that take a name.
var onName = map[string]func(d vfs.Dir, name string) error{
	"OpenDir": func(d vfs.Dir, name string) error { _, err := d.OpenDir(name); return err },
	"Mkdir":   func(d vfs.Dir, name string) error { return d.Mkdir(name) },
	"Create":  func(d vfs.Dir, name string) error { _, err := d.Create(name); return err },
	"Open":    func(d vfs.Dir, name string) error { _, err := d.Open(name); return err },
	"Stat":    func(d vfs.Dir, name string) error { _, err := d.Stat(name); return err },
	"Rename":  func(d vfs.Dir, name string) error { return d.Rename(name, "new") },
	"Remove":  func(d vfs.Dir, name string) error { return d.Remove(name) },
	"Lock":    func(d vfs.Dir, name string) error { _, err := d.Lock(name); return err },
}

var names = []test{
	{"names/bad ones are refused", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "sub")
		put(t, d, "f", "x")
		for call, fn := range onName {
			for _, name := range badNames {
				require.ErrorIs(t, fn(d, name), fs.ErrInvalid, "%s(%q)", call, name)
			}
		}
		for _, name := range badNames {
			require.ErrorIs(t, d.Rename("f", name), fs.ErrInvalid, "Rename to %q", name)
		}
		require.Equal(t, []string{"f", "sub"}, listNames(t, d))
		require.Equal(t, "x", get(t, d, "f"))
	}},
	{"names/nothing above a directory can be reached from it", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "sub", "sub/deep")
		put(t, d, "f", "secret")
		sub := openDir(t, d, "sub")
		for _, name := range []string{"../f", "deep/../../f", "/f"} {
			for call, fn := range onName {
				require.ErrorIs(t, fn(sub, name), fs.ErrInvalid, "%s(%q)", call, name)
			}
		}
		require.Equal(t, "secret", get(t, d, "f"))
		require.Equal(t, []string{"f", "sub"}, listNames(t, d))
	}},
	{"names/unusual ones are taken as they are", func(t *testing.T, d vfs.Dir) {
		want := []string{"...", "..a", "-x", "a b", "a.tmp", ".hidden", "ü", "a'\"*?"}
		for _, name := range want {
			put(t, d, name, name)
		}
		slices.Sort(want)
		require.Equal(t, want, listNames(t, d))
		for _, name := range want {
			require.Equal(t, name, get(t, d, name))
		}
	}},
	{"names/paths below the directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b", "a/b/c")
		put(t, d, "a/b/c/f", "x")
		require.Equal(t, "x", get(t, d, "a/b/c/f"))
		require.Equal(t, "x", get(t, openDir(t, d, "a/b"), "c/f"))
		require.Equal(t, "f", stat(t, d, "a/b/c/f").Name)
		require.NoError(t, d.Rename("a/b/c/f", "a/g"))
		require.Equal(t, []string{"b", "g"}, listNames(t, openDir(t, d, "a")))
		require.NoError(t, d.Remove("a/b/c"))
		require.Empty(t, listNames(t, openDir(t, d, "a/b")))
	}},
	{"names/a missing parent", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		for call, fn := range onName {
			require.ErrorIs(t, fn(d, "no/f"), fs.ErrNotExist, call)
		}
		require.ErrorIs(t, d.Rename("f", "no/f"), fs.ErrNotExist)
		require.Equal(t, []string{"f"}, listNames(t, d))
	}},
	{"names/a file is no parent", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		put(t, d, "g", "y")
		for call, fn := range onName {
			require.Error(t, fn(d, "f/x"), call)
		}
		require.Error(t, d.Rename("g", "f/x"))
		require.Equal(t, "x", get(t, d, "f"))
		require.Equal(t, "y", get(t, d, "g"))
	}},
	{"names/a missing one", func(t *testing.T, d vfs.Dir) {
		for _, call := range []string{"OpenDir", "Open", "Stat", "Rename", "Remove"} {
			require.ErrorIs(t, onName[call](d, "no"), fs.ErrNotExist, call)
		}
		require.Empty(t, listNames(t, d))
	}},
	{"names/concurrent use", func(t *testing.T, d vfs.Dir) {
		name := func(i int) string { return string(rune('a' + i)) }
		for _, err := range concurrently(16, func(i int) error { return useAlone(d, name(i)) }) {
			require.NoError(t, err)
		}
		require.Len(t, list(t, d), 16)
		for i := range 16 {
			require.Equal(t, name(i), get(t, d, name(i)+"/kept"))
		}
	}},

	{"Mkdir/makes an empty directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		require.Empty(t, listNames(t, openDir(t, d, "a")))
		require.NoError(t, d.Sync())
	}},
	{"Mkdir/a taken name", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "a/f", "x")
		require.ErrorIs(t, d.Mkdir("a"), fs.ErrExist)
		require.ErrorIs(t, d.Mkdir("a/f"), fs.ErrExist)
		require.Equal(t, "x", get(t, d, "a/f"))
	}},
	{"Mkdir/one of several wins", func(t *testing.T, d vfs.Dir) {
		requireOneWinner(t, concurrently(8, func(int) error { return d.Mkdir("a") }), fs.ErrExist)
	}},

	{"Create/makes an empty file for reading and writing", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "")
		require.Zero(t, size(t, f))
		write(t, f, "abc", 0)
		require.Equal(t, "abc", contents(t, f))
	}},
	{"Create/a taken name", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		mkdir(t, d, "a")
		for _, name := range []string{"f", "a"} {
			_, err := d.Create(name)
			require.ErrorIs(t, err, fs.ErrExist)
		}
		require.Equal(t, "x", get(t, d, "f"))
		require.True(t, stat(t, d, "a").Dir)
	}},
	{"Create/one of several wins", func(t *testing.T, d vfs.Dir) {
		requireOneWinner(t, concurrently(8, func(int) error {
			f, err := d.Create("f")
			if err == nil {
				err = f.Close()
			}
			return err
		}), fs.ErrExist)
	}},

	{"Open/reads and writes what is there", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "abc")
		f := open(t, d, "f")
		require.Equal(t, "abc", contents(t, f))
		write(t, f, "B", 1)
		require.Equal(t, "aBc", get(t, d, "f"))
	}},
	{"Open/never creates", func(t *testing.T, d vfs.Dir) {
		_, err := d.Open("f")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, listNames(t, d))
	}},
	{"Open/refuses a directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		_, err := d.Open("a")
		require.Error(t, err)
	}},
	{"OpenDir/refuses a file", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		_, err := d.OpenDir("f")
		require.Error(t, err)
	}},

	{"Stat/describes files and directories", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b")
		f := create(t, d, "a/f", "12345")
		b := openDir(t, d, "a/b")
		info := stat(t, d, "a/f")
		require.Equal(t, vfs.Info{Name: "f", Size: 5, MTime: info.MTime, ID: f.ID()}, info)
		info = stat(t, d, "a/b")
		require.Equal(t, vfs.Info{Name: "b", Dir: true, MTime: info.MTime, ID: b.ID()}, info)
		require.NoError(t, f.Truncate(3))
		require.EqualValues(t, 3, stat(t, d, "a/f").Size)
	}},
	{"Stat/MTime is that of the contents", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "12345")
		before := stat(t, d, "f").MTime
		require.NotZero(t, before)
		contents(t, f)
		require.NoError(t, d.Rename("f", "g"))
		require.NoError(t, f.Sync())
		require.Equal(t, before, stat(t, d, "g").MTime)
	}},

	{"List/an empty directory", func(t *testing.T, d vfs.Dir) {
		require.Empty(t, list(t, d))
	}},
	{"List/is ordered and shows one level", func(t *testing.T, d vfs.Dir) {
		for _, name := range []string{"b", "a0", "10", "Z", "a", "a.b", "9", "a-b"} {
			put(t, d, name, name)
		}
		mkdir(t, d, "aa")
		put(t, d, "aa/below", "")
		require.Equal(t, []string{"10", "9", "Z", "a", "a-b", "a.b", "a0", "aa", "b"}, listNames(t, d))
	}},
	{"List/agrees with Stat", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "f", "12345")
		put(t, d, "g", "")
		infos := list(t, d)
		require.Len(t, infos, 3)
		for _, info := range infos {
			require.Equal(t, stat(t, d, info.Name), info)
		}
	}},
	{"List/shows what other handles did", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		one, two := openDir(t, d, "a"), openDir(t, d, "a")
		put(t, one, "f", "x")
		require.Equal(t, []string{"f"}, listNames(t, two))
		require.Equal(t, []string{"f"}, listNames(t, two), "a list starts at the beginning")
		require.NoError(t, two.Remove("f"))
		require.Empty(t, listNames(t, one))
	}},
	{"List/many entries", func(t *testing.T, d vfs.Dir) {
		var want []string
		for i := range 600 {
			name := "entry-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + "-with-a-long-name-to-fill-a-block"
			put(t, d, name, "")
			want = append(want, name)
		}
		slices.Sort(want)
		require.Equal(t, want, listNames(t, d))
	}},
	{"Sync/any directory", func(t *testing.T, d vfs.Dir) {
		require.NoError(t, d.Sync())
		mkdir(t, d, "a")
		put(t, d, "f", "x")
		require.NoError(t, d.Sync())
		require.NoError(t, openDir(t, d, "a").Sync())
		require.Equal(t, []string{"a", "f"}, listNames(t, d))
	}},
}

// useAlone does a bit of everything below a directory of its own.
func useAlone(d vfs.Dir, name string) error {
	if err := d.Mkdir(name); err != nil {
		return err
	}
	for range 20 {
		if err := vfs.ReplaceFile(d, name+"-x", []byte(name)); err != nil {
			return err
		}
		if err := d.Rename(name+"-x", name+"/kept"); err != nil {
			return err
		}
		if _, err := d.List(); err != nil {
			return err
		}
		if _, err := d.Stat(name + "/kept"); err != nil {
			return err
		}
	}
	return nil
}
