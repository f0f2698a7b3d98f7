package vfstest

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var zeros = func(n int) string { return strings.Repeat("\x00", n) }

var bytes = []test{
	{"ReadAt/ends with io.EOF", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "0123456789")
		for _, c := range []struct {
			off  int64
			len  int
			want string
			err  error
		}{
			{0, 10, "0123456789", nil},
			{0, 4, "0123", nil},
			{6, 4, "6789", nil},
			{6, 5, "6789", io.EOF},
			{0, 100, "0123456789", io.EOF},
			{9, 2, "9", io.EOF},
			{10, 1, "", io.EOF},
			{5000, 1, "", io.EOF},
			{3, 0, "", nil},
		} {
			b := make([]byte, c.len)
			n, err := f.ReadAt(b, c.off)
			require.Equal(t, c.err, err, "%d bytes at %d", c.len, c.off)
			require.Equal(t, c.want, string(b[:n]), "%d bytes at %d", c.len, c.off)
		}
	}},
	{"ReadAt/an empty file", func(t *testing.T, d vfs.Dir) {
		n, err := create(t, d, "f", "").ReadAt(make([]byte, 1), 0)
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
	}},
	{"ReadAt/refuses a negative position", func(t *testing.T, d vfs.Dir) {
		n, err := create(t, d, "f", "abc").ReadAt(make([]byte, 1), -1)
		require.Zero(t, n)
		require.Error(t, err)
		require.NotEqual(t, io.EOF, err)
	}},

	{"WriteAt/overwrites and grows", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "0123456789")
		write(t, f, "AB", 2)
		require.Equal(t, "01AB456789", contents(t, f))
		write(t, f, "XYZ", 8)
		require.Equal(t, "01AB4567XYZ", contents(t, f))
		write(t, f, "!", 11)
		require.Equal(t, "01AB4567XYZ!", contents(t, f))
	}},
	{"WriteAt/a gap reads as zeros", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		write(t, f, "end", 3*vfs.SectorSize+7)
		require.Equal(t, "abc"+zeros(3*vfs.SectorSize+4)+"end", contents(t, f))
		g := create(t, d, "g", "")
		write(t, g, "x", 100_000)
		require.Equal(t, zeros(100_000)+"x", contents(t, g))
	}},
	{"WriteAt/across sectors and pages", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", strings.Repeat(".", 20_000))
		want := []byte(strings.Repeat(".", 20_000))
		for i, c := range [][2]int{{511, 2}, {512, 512}, {1000, 5000}, {4095, 2}, {8192, 4096}, {19_999, 1}, {1, 19_000}} {
			data := strings.Repeat(string(rune('a'+i)), c[1])
			write(t, f, data, int64(c[0]))
			copy(want[c[0]:], data)
			require.True(t, string(want) == contents(t, f), "after %d bytes at %d", c[1], c[0])
		}
	}},
	{"WriteAt/nothing changes nothing", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		write(t, f, "", 1)
		write(t, f, "", 100)
		require.Equal(t, "abc", contents(t, f))
	}},
	{"WriteAt/does not keep the caller's bytes", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "")
		b := []byte("abc")
		_, err := f.WriteAt(b, 0)
		require.NoError(t, err)
		copy(b, "XYZ")
		require.NoError(t, f.Sync())
		require.Equal(t, "abc", contents(t, f))
	}},
	{"WriteAt/refuses a negative position", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		n, err := f.WriteAt([]byte("x"), -1)
		require.Zero(t, n)
		require.Error(t, err)
		require.Equal(t, "abc", contents(t, f))
	}},
	{"WriteAt/every handle sees it at once", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		g := open(t, d, "f")
		write(t, f, "XY", 2)
		require.Equal(t, "abXY", contents(t, g))
		write(t, g, "0", 0)
		require.Equal(t, "0bXY", contents(t, f))
		require.NoError(t, g.Truncate(1))
		require.EqualValues(t, 1, size(t, f))
		require.EqualValues(t, 1, stat(t, d, "f").Size)
	}},
	{"WriteAt/disjoint ranges at once", func(t *testing.T, d vfs.Dir) {
		const tasks, span = 8, 700 // not whole sectors, so neighbours share them
		f := create(t, d, "f", "")
		for _, err := range concurrently(tasks, func(i int) error { return fillAlone(f, i, span) }) {
			require.NoError(t, err)
		}
		var want strings.Builder
		for i := range tasks {
			want.WriteString(strings.Repeat(string(rune('a'+i)), span))
		}
		require.Equal(t, want.String(), contents(t, f))
	}},

	{"Truncate/shortens and grows", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "0123456789")
		require.NoError(t, f.Truncate(4))
		require.Equal(t, "0123", contents(t, f))
		require.NoError(t, f.Truncate(4))
		require.NoError(t, f.Truncate(7))
		require.Equal(t, "0123"+zeros(3), contents(t, f))
		require.NoError(t, f.Truncate(0))
		require.Zero(t, size(t, f))
		require.NoError(t, f.Truncate(50_000))
		require.Equal(t, zeros(50_000), contents(t, f))
	}},
	{"Truncate/what was cut off never comes back", func(t *testing.T, d vfs.Dir) {
		for i, cut := range []int64{0, 1, 511, 512, 513, 4095, 4096, 5000} {
			full := strings.Repeat("x", 10_000)
			want := full[:cut] + zeros(10_000-int(cut))
			for how, grow := range map[string]func(f vfs.File) error{
				"Truncate":    func(f vfs.File) error { return f.Truncate(10_000) },
				"Preallocate": func(f vfs.File) error { return f.Preallocate(10_000) },
				"WriteAt":     func(f vfs.File) error { _, err := f.WriteAt([]byte{0}, 9_999); return err },
			} {
				f := create(t, d, fmt.Sprint(how, i), full)
				require.NoError(t, f.Sync())
				require.NoError(t, f.Truncate(cut))
				require.NoError(t, grow(f))
				require.True(t, want == contents(t, f), "cut to %d, grown by %s", cut, how)
			}
		}
	}},
	{"Truncate/refuses a negative size", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.Error(t, f.Truncate(-1))
		require.Equal(t, "abc", contents(t, f))
	}},

	{"Preallocate/grows with zeros", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.NoError(t, f.Preallocate(70_000))
		require.Equal(t, "abc"+zeros(70_000-3), contents(t, f))
		write(t, f, "x", 69_999)
		require.Equal(t, "abc"+zeros(70_000-4)+"x", contents(t, f))
	}},
	{"Preallocate/never shortens", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "0123456789")
		for _, n := range []int64{0, 1, 9, 10} {
			require.NoError(t, f.Preallocate(n))
			require.Equal(t, "0123456789", contents(t, f))
		}
		g := create(t, d, "g", "")
		require.NoError(t, g.Preallocate(0))
		require.Zero(t, size(t, g))
	}},
	{"Preallocate/fills gaps and keeps bytes", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "")
		write(t, f, "end", 40_000)
		require.NoError(t, f.Preallocate(20_000))
		require.Equal(t, zeros(40_000)+"end", contents(t, f))
	}},
	{"Preallocate/refuses a negative size", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.Error(t, f.Preallocate(-1))
		require.Equal(t, "abc", contents(t, f))
	}},

	{"Sync/any file", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "")
		require.NoError(t, f.Sync())
		write(t, f, "abc", 1000)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Sync())
		require.Equal(t, zeros(1000)+"abc", contents(t, f))
	}},
	{"Size/as readers see it", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "")
		require.Zero(t, size(t, f))
		write(t, f, "abc", 2)
		require.EqualValues(t, 5, size(t, f))
		write(t, f, "x", 0)
		require.EqualValues(t, 5, size(t, f))
	}},
}

// fillAlone writes the i-th span of f in pieces, from its end to its start, and reads each piece back.
func fillAlone(f vfs.File, i, span int) error {
	piece := []byte(strings.Repeat(string(rune('a'+i)), 7))
	b := make([]byte, len(piece))
	for off := span - len(piece); off >= 0; off -= len(piece) {
		at := int64(i*span + off)
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		if string(b) != string(piece) {
			return fmt.Errorf("wrote %q at %d, read %q", piece, at, b)
		}
	}
	return nil
}
