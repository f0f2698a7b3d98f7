package vfstest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"narad/vfs"
)

// Differential applies the same random operations to the empty directories a and b and fails at the first
// different answer: kind of error, bytes, sizes, lists, and which handles and names share an ID. At the end
// it compares the trees. The seed alone decides the operations.
func Differential(t *testing.T, a, b vfs.Dir, ops int, seed uint64) {
	t.Helper()
	if err := compare(a, b, ops, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func compare(a, b vfs.Dir, ops int, seed uint64) error {
	left, right := newActor(a), newActor(b)
	defer left.close()
	defer right.close()
	rng := rand.New(rand.NewPCG(seed, 0))
	var log []string
	for i := range ops {
		o := drawOp(rng)
		one, two := left.do(o), right.do(o)
		log = append(log, fmt.Sprintf("%d: %s -> %s", i, o, one))
		if one != two {
			return differ("answers", one, two, log)
		}
	}
	if one, two := tree(a, ""), tree(b, ""); one != two {
		return differ("trees", one, two, log)
	}
	return nil
}

func differ(what, one, two string, log []string) error {
	return fmt.Errorf("the %s differ: %s\nand: %s\nafter\n%s", what, one, two,
		strings.Join(log[max(0, len(log)-60):], "\n"))
}

// op is one operation, in numbers that mean the same to both sides.
type op struct {
	verb           string
	dir            int // which open directory, modulo how many there are
	handle         int // which open file or lock, likewise
	source, target string
	off            int64
	data           string
}

func (o op) String() string {
	return fmt.Sprintf("%s dir=%d handle=%d %q %q off=%d len=%d", o.verb, o.dir, o.handle, o.source, o.target, o.off, len(o.data))
}

// lockName is mostly one name, so that locks meet.
func (o op) lockName() string {
	if o.off == 0 {
		return o.source
	}
	return "lock"
}

// verbs names each operation as often as it is likely.
var verbs = strings.Fields(`
	create create create create mkdir mkdir mkdir open open open opendir opendir stat stat list list
	rename rename rename rename remove remove remove sync lock lock lock unlock id id
	read read read write write write write write write write truncate truncate preallocate size fsync
	close closedir readfile replacefile replacefile removeall`)

func drawOp(rng *rand.Rand) op {
	return op{
		verb:   verbs[rng.IntN(len(verbs))],
		dir:    rng.IntN(64),
		handle: rng.IntN(64),
		source: drawName(rng),
		target: drawName(rng),
		off:    drawOffset(rng),
		data:   drawData(rng),
	}
}

// drawName returns one of few names, so that operations meet.
func drawName(rng *rand.Rand) string {
	if rng.IntN(50) == 0 {
		return badNames[rng.IntN(len(badNames))]
	}
	depth := 1 + rng.IntN(2)*rng.IntN(3)
	var elements []string
	for range depth {
		elements = append(elements, string(rune('a'+rng.IntN(4))))
	}
	return path.Join(elements...)
}

// drawOffset favours places where sectors and pages meet.
func drawOffset(rng *rand.Rand) int64 {
	edge := []int64{0, 0, vfs.SectorSize, 2 * vfs.SectorSize, 4096, 8192}[rng.IntN(6)]
	return max(0, edge+int64(rng.IntN(9))-4)
}

func drawData(rng *rand.Rand) string {
	n := []int{0, 1, 5, vfs.SectorSize - 1, vfs.SectorSize, vfs.SectorSize + 1, 3000, 5000}[rng.IntN(8)]
	return strings.Repeat(string(rune('A'+rng.IntN(26))), n)
}

// maxHandles bounds what an actor keeps open of each kind.
const maxHandles = 6

// actor applies operations to one directory and puts every answer in words.
type actor struct {
	roots []vfs.Dir // the first is the directory under test and stays open
	files []vfs.File
	locks []io.Closer
	ids   map[vfs.ID]int // in the order seen, so that two disks can be compared
}

func newActor(d vfs.Dir) *actor {
	w := &actor{roots: []vfs.Dir{d}, ids: map[vfs.ID]int{}}
	w.number(d.ID())
	return w
}

func (w *actor) close() {
	for _, d := range w.roots[1:] {
		d.Close()
	}
	for _, f := range w.files {
		f.Close()
	}
	for _, l := range w.locks {
		l.Close()
	}
}

func (w *actor) number(id vfs.ID) int {
	if _, ok := w.ids[id]; !ok {
		w.ids[id] = len(w.ids)
	}
	return w.ids[id]
}

func (w *actor) do(o op) string {
	d := w.roots[o.dir%len(w.roots)]
	switch o.verb {
	case "create":
		return w.keepFile(d.Create(o.source))
	case "open":
		return w.keepFile(d.Open(o.source))
	case "opendir":
		return w.keepDir(d.OpenDir(o.source))
	case "mkdir":
		return kind(d.Mkdir(o.source))
	case "stat":
		info, err := d.Stat(o.source)
		return w.describe(info, err)
	case "list":
		return w.list(d)
	case "rename":
		return kind(d.Rename(o.source, o.target))
	case "remove":
		return kind(d.Remove(o.source))
	case "sync":
		return kind(d.Sync())
	case "id":
		return fmt.Sprint(w.number(d.ID()))
	case "closedir":
		return w.closeDir(o.dir)
	case "lock":
		return w.keepLock(d.Lock(o.lockName()))
	case "unlock":
		return w.unlock(o.handle)
	case "readfile":
		b, err := vfs.ReadFile(d, o.source, 6000)
		return digest(b) + kind(err)
	case "replacefile":
		return kind(vfs.ReplaceFile(d, o.source, []byte(o.data)))
	case "removeall":
		return kind(vfs.RemoveAll(d, o.source))
	}
	if len(w.files) == 0 {
		return "no file is open"
	}
	return w.doFile(o)
}

func (w *actor) doFile(o op) string {
	f := w.files[o.handle%len(w.files)]
	switch o.verb {
	case "read":
		b := make([]byte, len(o.data))
		n, err := f.ReadAt(b, o.off)
		if n == 0 && len(b) == 0 {
			err = nil // an io.ReaderAt may say either at the end of the file
		}
		return fmt.Sprint(n, digest(b[:n]), kind(err))
	case "write":
		n, err := f.WriteAt([]byte(o.data), o.off)
		return fmt.Sprint(n, kind(err))
	case "truncate":
		return kind(f.Truncate(o.off))
	case "preallocate":
		return kind(f.Preallocate(o.off))
	case "size":
		n, err := f.Size()
		return fmt.Sprint(n, kind(err), w.number(f.ID()))
	case "fsync":
		return kind(f.Sync())
	case "close":
		i := o.handle % len(w.files)
		w.files = append(w.files[:i], w.files[i+1:]...)
		return kind(f.Close())
	}
	panic("unknown verb " + o.verb)
}

func (w *actor) keepFile(f vfs.File, err error) string {
	if err != nil {
		return kind(err)
	}
	if w.files = append(w.files, f); len(w.files) > maxHandles {
		w.files[0].Close()
		w.files = w.files[1:]
	}
	return fmt.Sprint("file ", w.number(f.ID()))
}

func (w *actor) keepDir(d vfs.Dir, err error) string {
	if err != nil {
		return kind(err)
	}
	if w.roots = append(w.roots, d); len(w.roots) > maxHandles {
		w.roots[1].Close()
		w.roots = append(w.roots[:1], w.roots[2:]...)
	}
	return fmt.Sprint("directory ", w.number(d.ID()))
}

func (w *actor) keepLock(l io.Closer, err error) string {
	if err != nil {
		return kind(err)
	}
	if w.locks = append(w.locks, l); len(w.locks) > 2 {
		w.locks[0].Close()
		w.locks = w.locks[1:]
	}
	return "locked"
}

func (w *actor) unlock(handle int) string {
	if len(w.locks) == 0 {
		return "no lock is held"
	}
	i := handle % len(w.locks)
	l := w.locks[i]
	w.locks = append(w.locks[:i], w.locks[i+1:]...)
	return kind(l.Close())
}

func (w *actor) closeDir(i int) string {
	if i %= len(w.roots); i == 0 {
		return "stays open"
	}
	d := w.roots[i]
	w.roots = append(w.roots[:i], w.roots[i+1:]...)
	return kind(d.Close()) + kind(d.Sync())
}

func (w *actor) list(d vfs.Dir) string {
	infos, err := d.List()
	if len(infos) == 0 {
		return "empty" // the list of a removed directory may also be refused
	}
	var b strings.Builder
	for _, info := range infos {
		b.WriteString(w.describe(info, nil))
	}
	return b.String() + kind(err)
}

func (w *actor) describe(info vfs.Info, err error) string {
	if err != nil {
		return kind(err)
	}
	return fmt.Sprintf("[%s dir=%v size=%d id=%d]", info.Name, info.Dir, info.Size, w.number(info.ID))
}

// kind puts an error in the words that callers may tell apart. A bad name and what a system calls invalid (a
// directory moved below itself) are both refusals here.
func kind(err error) string {
	for _, k := range []struct {
		err  error
		name string
	}{
		{io.EOF, "EOF"}, {fs.ErrNotExist, "missing"}, {fs.ErrExist, "exists"},
		{fs.ErrClosed, "closed"}, {vfs.ErrLocked, "locked"},
	} {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	if err != nil {
		return "refused"
	}
	return "ok"
}

func digest(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%d bytes %x ", len(b), h.Sum64())
}

// tree puts everything below d in words, without IDs.
func tree(d vfs.Dir, at string) string {
	infos, err := d.List()
	if err != nil {
		return at + ": " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, info := range infos {
		name := path.Join(at, info.Name)
		if !info.Dir {
			data, err := vfs.ReadFile(d, info.Name, 1<<30)
			fmt.Fprintln(&b, name, digest(data), err)
			continue
		}
		fmt.Fprintln(&b, name+"/")
		sub, err := d.OpenDir(info.Name)
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		b.WriteString(tree(sub, name))
		sub.Close()
	}
	return b.String()
}
