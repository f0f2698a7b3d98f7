package disk

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program is a few lines that act on a disk. Sectors are written as letters, one letter for 512 equal
// bytes and '.' for zeros:
//
//	create a            mkdir d             remove a          rename a d/b
//	write a AB          write a C @3        put a A*100 @50   sectors from number 3; bytes from offset 50
//	truncate a 100      preallocate a 1024  bytes
//	sync a              syncdir d           syncdir .
//	durable a AB        create, write, sync, sync the directory
//	failsync a visible  failsync a hidden   evict a
//	lose a C @0         misdirect a C @0 b @1
//	short a CD @0 600   only the first 600 bytes of the write
//	processcrash

func run(t testing.TB, d *Disk, program ...string) {
	t.Helper()
	for _, line := range program {
		require.NoError(t, step(d, line), line)
	}
}

func step(d *Disk, line string) error {
	w := strings.Fields(line)
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(strings.TrimPrefix(arg(i), "@"), 10, 64)
		return n
	}
	p := arg(1)
	ino := func(p string) Ino {
		if p == "." || p == "" {
			return d.Root()
		}
		_, i, err := d.Lookup(d.Root(), p)
		if err != nil {
			panic(err)
		}
		return i
	}
	switch w[0] {
	case "create":
		_, err := d.Create(d.Root(), p)
		return err
	case "mkdir":
		_, err := d.Mkdir(d.Root(), p)
		return err
	case "remove":
		return d.Remove(d.Root(), p)
	case "rename":
		return d.Rename(d.Root(), p, w[2])
	case "write":
		return d.WriteAt(ino(p), letters(w[2]), number(3)*sectorSize)
	case "put":
		letter, count, _ := strings.Cut(w[2], "*")
		n, _ := strconv.Atoi(count)
		return d.WriteAt(ino(p), bytes.Repeat([]byte(letter), n), number(3))
	case "short":
		return d.WriteShort(ino(p), letters(w[2]), number(3)*sectorSize, int(number(4)))
	case "truncate":
		return d.Truncate(ino(p), number(2))
	case "preallocate":
		return d.Preallocate(ino(p), number(2))
	case "sync":
		return d.Sync(ino(p))
	case "syncdir":
		return d.SyncDir(ino(p))
	case "durable":
		for _, line := range []string{"create " + p, "write " + p + " " + w[2], "sync " + p, "syncdir " + path.Dir(p)} {
			if err := step(d, line); err != nil {
				return err
			}
		}
		return nil
	case "failsync":
		d.SyncFails(ino(p), w[2] == "visible")
	case "evict":
		d.Evict(ino(p))
	case "lose":
		return d.LoseWrite(ino(p), letters(w[2]), number(3)*sectorSize)
	case "misdirect":
		return d.MisdirectWrite(ino(p), letters(w[2]), number(3)*sectorSize, ino(w[4]), number(5)*sectorSize)
	case "processcrash":
		d.ProcessCrash()
	default:
		panic("no such step: " + line)
	}
	return nil
}

// letters turns "AB" into two sectors.
func letters(s string) []byte {
	var b []byte
	for _, c := range []byte(s) {
		if c == '.' {
			c = 0
		}
		b = append(b, bytes.Repeat([]byte{c}, sectorSize)...)
	}
	return b
}

// show describes all that can be seen on a disk, such as "a=AB d/ d/b=A100+.412".
func show(d *Disk) string {
	var out []string
	var walk func(dir Ino, prefix string)
	walk = func(dir Ino, prefix string) {
		infos, err := d.List(dir)
		if err != nil {
			panic(err)
		}
		for _, info := range infos {
			i := Ino(info.ID.Inode)
			if info.Dir {
				out = append(out, prefix+info.Name+"/")
				walk(i, prefix+info.Name+"/")
				continue
			}
			b := make([]byte, info.Size)
			if n, _ := d.ReadAt(i, b, 0); n != len(b) {
				panic("short read")
			}
			out = append(out, prefix+info.Name+"="+describe(b))
		}
	}
	walk(d.Root(), "")
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " ")
}

// describe is the inverse of letters where it can be, and lists runs of equal bytes otherwise.
func describe(b []byte) string {
	var sectors, runs []string
	whole := len(b)%sectorSize == 0
	name := func(c byte) string {
		switch {
		case c == 0:
			return "."
		case c > ' ' && c < 127:
			return string(rune(c))
		}
		return fmt.Sprintf("\\%02x", c)
	}
	for i := 0; whole && i < len(b); i += sectorSize {
		s := b[i : i+sectorSize]
		whole = bytes.Count(s, s[:1]) == sectorSize
		sectors = append(sectors, name(s[0]))
	}
	if whole {
		return strings.Join(sectors, "")
	}
	for len(b) > 0 {
		n := 0
		for n < len(b) && b[n] == b[0] {
			n++
		}
		runs = append(runs, name(b[0])+strconv.Itoa(n))
		b = b[n:]
	}
	return strings.Join(runs, "+")
}

// states lists what the images of a crash look like, sorted.
func states(d *Disk) []string {
	var out []string
	for img := range d.Crashes(0) {
		out = append(out, show(img))
	}
	slices.Sort(out)
	return out
}
