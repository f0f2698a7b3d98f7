package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// watched counts the files that are open through it, and lets something happen between two calls.
type watched struct {
	Dir
	open   int
	opened func() // after each Open, and each Stat
}

type watchedFile struct {
	File
	in *watched
}

func (f watchedFile) Close() error {
	f.in.open--
	return f.File.Close()
}

func (w *watched) Open(name string) (File, error) {
	f, err := w.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	w.open++
	w.opened()
	return watchedFile{f, w}, nil
}

func (w *watched) Stat(name string) (Info, error) {
	defer w.opened()
	return w.Dir.Stat(name)
}

// walker is a watched one that finds everything by one walk.
type walker struct{ *watched }

func (w walker) StatWithin(dir, base string) (d, f ID, err error) {
	in, err := w.Dir.Stat(dir)
	if err != nil {
		return ID{}, ID{}, err
	}
	info, err := w.Dir.Stat(dir + "/" + base)
	return in.ID, info.ID, err
}

func (w walker) OpenWithin(dir, base string) (File, ID, error) {
	in, err := w.Dir.Stat(dir)
	if err != nil {
		return nil, ID{}, err
	}
	f, err := w.Open(dir + "/" + base)
	return f, in.ID, err
}

// What is the same is said of every kind of directory, and what is refused is closed, once.
func TestSameOfEveryDir(t *testing.T) {
	setIdleRoom(t, 0)
	path, root, _ := pinned(t, "a/b")
	d, err := root.Stat("a/b")
	require.NoError(t, err)
	fill(t, filepath.Join(path, "a", "b"))
	f, err := root.Stat("a/b/f")
	require.NoError(t, err)
	fill(t, filepath.Join(path, "a", "c"))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "a", "linked"), 0o700))
	require.NoError(t, os.Link(filepath.Join(path, "a", "b", "f"), filepath.Join(path, "a", "linked", "f")))
	a, err := root.OpenDir("a")
	require.NoError(t, err)
	defer a.Close()
	for kind, dir := range map[string]Dir{"root": root, "below": a, "read only": readOnlyDir{root}, "read only below": readOnlyDir{a}} {
		at := "a/"
		if kind == "below" || kind == "read only below" {
			at = ""
		}
		hidden := &watched{Dir: dir, opened: func() {}}
		for way, dir := range map[string]Dir{"plainly": dir, "step by step": hidden, "by one walk": walker{hidden}} {
			for _, c := range []struct {
				dir, base string
				d, f      ID
				want      error
			}{
				{"b", "f", d.ID, f.ID, nil},
				{"linked", "f", d.ID, f.ID, ErrElsewhere},
				{"c", "f", d.ID, f.ID, ErrElsewhere},
				{"b", "spare", d.ID, f.ID, ErrElsewhere},
				{"b", "f", f.ID, f.ID, ErrElsewhere},
				{"b", "f", ID{}, f.ID, ErrElsewhere},
				{"b", "f", d.ID, ID{}, ErrElsewhere},
				{"b", "none", d.ID, f.ID, fs.ErrNotExist},
				{"none", "f", d.ID, f.ID, fs.ErrNotExist},
				{"b", "..", d.ID, f.ID, fs.ErrInvalid},
				{"b", "", d.ID, f.ID, fs.ErrInvalid},
			} {
				require.ErrorIs(t, SameWithin(dir, at+c.dir, c.d, c.base, c.f), c.want, "%s %s: %v", kind, way, c)
				file, err := OpenSameWithin(dir, at+c.dir, c.d, c.base, c.f)
				require.ErrorIs(t, err, c.want, "%s %s: %v", kind, way, c)
				if c.want == nil {
					require.Equal(t, f.ID, file.ID())
					require.NoError(t, file.Close())
				} else {
					require.Nil(t, file)
				}
				require.Zero(t, hidden.open, "%s %s: %v", kind, way, c)
			}
			require.NoError(t, SameAt(dir, at+"b/f", f.ID))
			require.ErrorIs(t, SameAt(dir, at+"b/spare", f.ID), ErrElsewhere)
			require.ErrorIs(t, SameAt(dir, at+"b/none", f.ID), fs.ErrNotExist)
		}
	}
}

// Step by step the directory is looked at after the file was opened: one that was replaced in between is noticed.
func TestSameThatIsReplacedMeanwhile(t *testing.T) {
	path, root, _ := pinned(t, "a/b")
	here := filepath.Join(path, "a", "b")
	fill(t, here)
	d, err := root.Stat("a/b")
	require.NoError(t, err)
	f, err := root.Stat("a/b/f")
	require.NoError(t, err)
	once := true
	w := &watched{Dir: root, opened: func() {
		if once {
			once = false
			require.NoError(t, os.Rename(here, filepath.Join(path, "away")))
			fill(t, here)
		}
	}}
	_, err = OpenSameWithin(w, "a/b", d.ID, "f", f.ID)
	require.ErrorIs(t, err, ErrElsewhere)
	require.Zero(t, w.open)

	require.NoError(t, errors.Join(os.RemoveAll(here), os.Rename(filepath.Join(path, "away"), here)))
	require.NoError(t, SameWithin(w, "a/b", d.ID, "f", f.ID))
	once = true
	require.ErrorIs(t, SameWithin(w, "a/b", d.ID, "f", f.ID), ErrElsewhere)
}
