package disk

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oracle says what a crash may leave by definition: it forgets nothing, never changes anything in place, and
// tries every set of operations and every contents of every sector. The disk does the same incrementally.
type oracle struct {
	personality Personality
	clock       int
	root        *object
	objects     []*object
	events      []*event // everything that has an order: names, and on Ordered explicit sizes
	committed   int      // Ordered: events up to this moment are durable
}

type object struct {
	id       int
	dir      bool
	children map[string]*object // visible
	made     *event
	cur      []byte
	sizes    []sizeEvent
	history  map[int64][]contents // of each sector, oldest first
	synced   int                  // moment of the last sync
}

type sizeEvent struct {
	at         int
	prev, size int64
	explicit   bool
}

type contents struct {
	at   int
	data string
}

type nameKey_ struct {
	dir  *object
	name string
}

type event struct {
	at       int
	from, to *nameKey_ // a name that something left, a name that something took
	what     *object
	gone     *object // directory that ceased to exist
	move     bool    // of a directory to another parent
	durable  bool
	synced   map[*object]bool
	size     bool // not about names at all
}

func newOracle(p Personality) *oracle {
	root := &object{dir: true, children: map[string]*object{}}
	return &oracle{personality: p, root: root, objects: []*object{root}}
}

func (o *oracle) find(p string) (dir *object, name string, what *object) {
	dir = o.root
	parts := strings.Split(p, "/")
	for _, part := range parts[:len(parts)-1] {
		dir = dir.children[part]
	}
	name = parts[len(parts)-1]
	return dir, name, dir.children[name]
}

// do follows a step that succeeded on the disk.
func (o *oracle) do(line string) {
	o.clock++
	w := strings.Fields(line)
	num := func(i int) (n int64) {
		if i < len(w) {
			fmt.Sscanf(strings.TrimPrefix(w[i], "@"), "%d", &n)
		}
		return n
	}
	if w[0] == "syncdir" {
		dir := o.root
		if w[1] != "." {
			_, _, dir = o.find(w[1])
		}
		o.syncDir(dir)
		return
	}
	dir, name, what := o.find(w[1])
	switch w[0] {
	case "create", "mkdir":
		n := &object{id: len(o.objects), dir: w[0] == "mkdir", children: map[string]*object{}, history: map[int64][]contents{}}
		o.objects = append(o.objects, n)
		dir.children[name] = n
		n.made = o.record(event{to: &nameKey_{dir, name}, what: n})
	case "remove":
		delete(dir.children, name)
		e := event{from: &nameKey_{dir, name}}
		if what.dir {
			e.gone = what
		}
		o.record(e)
	case "rename":
		toDir, toName, replaced := o.find(w[2])
		if replaced == what {
			return
		}
		delete(dir.children, name)
		toDir.children[toName] = what
		e := event{from: &nameKey_{dir, name}, to: &nameKey_{toDir, toName}, what: what, move: what.dir && dir != toDir}
		if replaced != nil && replaced.dir {
			e.gone = replaced
		}
		o.record(e)
	case "write":
		o.write(what, letters(w[2]), num(3)*sectorSize)
	case "put":
		o.write(what, []byte(strings.Repeat(w[2][:1], 300)), num(3))
	case "truncate", "preallocate":
		o.resize(what, num(2), w[0] == "preallocate")
	case "sync":
		what.synced = o.clock
		o.committed = o.clock
	}
}

func (o *oracle) record(e event) *event {
	e.at = o.clock
	e.synced = map[*object]bool{}
	o.events = append(o.events, &e)
	return &e
}

func (o *oracle) write(f *object, p []byte, off int64) {
	prev := int64(len(f.cur))
	if end := off + int64(len(p)); end > prev {
		f.cur = append(f.cur, make([]byte, end-prev)...)
		f.sizes = append(f.sizes, sizeEvent{at: o.clock, prev: prev, size: end})
	}
	copy(f.cur[off:], p)
	for s := off / sectorSize; s*sectorSize < off+int64(len(p)); s++ {
		o.note(f, s)
	}
}

func (o *oracle) resize(f *object, size int64, growOnly bool) {
	prev := int64(len(f.cur))
	if size == prev || growOnly && size < prev {
		return
	}
	f.sizes = append(f.sizes, sizeEvent{at: o.clock, prev: prev, size: size, explicit: true})
	if size > prev {
		f.cur = append(f.cur, make([]byte, size-prev)...)
	} else {
		f.cur = f.cur[:size:size]
		for s := range f.history {
			if (s+1)*sectorSize > size {
				o.note(f, s)
			}
		}
	}
	if o.personality == Ordered {
		o.record(event{size: true})
	}
}

// note appends the present contents of a sector to its history.
func (o *oracle) note(f *object, s int64) {
	var b sector
	if off := s * sectorSize; off < int64(len(f.cur)) {
		copy(b[:], f.cur[off:])
	}
	f.history[s] = append(f.history[s], contents{o.clock, string(b[:])})
}

func (o *oracle) syncDir(dir *object) {
	o.committed = o.clock
	for _, e := range o.events {
		complete := false
		for _, k := range []*nameKey_{e.from, e.to} {
			if k != nil && k.dir == dir {
				e.synced[dir] = true
				complete = true
			}
		}
		for _, k := range []*nameKey_{e.from, e.to} {
			complete = complete && (k == nil || e.synced[k.dir])
		}
		if complete {
			o.endure(e)
		}
	}
}

// endure makes e durable with all it rests on for good.
func (o *oracle) endure(e *event) {
	if e.durable {
		return
	}
	e.durable = true
	for _, earlier := range o.events {
		if earlier.at < e.at && restsOn(e, earlier) {
			o.endure(earlier)
		}
	}
}

func restsOn(e, earlier *event) bool {
	for _, k := range []*nameKey_{e.from, e.to} {
		for _, l := range []*nameKey_{earlier.from, earlier.to} {
			if k != nil && l != nil && *k == *l {
				return true
			}
			if l != nil && e.gone != nil && l.dir == e.gone {
				return true
			}
		}
	}
	return e.move && earlier.move
}

// outcomes returns all sets of events that may survive.
func (o *oracle) outcomes() (sets [][]bool) {
	if o.personality == Ordered {
		for kept := range len(o.events) + 1 {
			if kept < len(o.events) && o.events[kept].at <= o.committed {
				continue
			}
			set := make([]bool, len(o.events))
			for i := range kept {
				set[i] = true
			}
			sets = append(sets, set)
		}
		return sets
	}
	free := o.free()
	for mask := range 1 << len(free) {
		set := make([]bool, len(o.events))
		for i, e := range o.events {
			at := slices.Index(free, e)
			set[i] = at < 0 || mask>>at&1 == 1
		}
		if o.isClosed(set) {
			sets = append(sets, set)
		}
	}
	return sets
}

// free returns the events that are not durable.
func (o *oracle) free() (free []*event) {
	for _, e := range o.events {
		if !e.durable && (o.personality == Adversarial || e.at > o.committed) {
			free = append(free, e)
		}
	}
	return free
}

func (o *oracle) isClosed(set []bool) bool {
	in := func(e *event) bool { return set[slices.Index(o.events, e)] }
	for i, e := range o.events {
		if e.durable && !set[i] {
			return false
		}
		if !set[i] || e.durable {
			continue
		}
		for k, earlier := range o.events[:i] {
			if restsOn(e, earlier) && !set[k] {
				return false
			}
		}
		if e.to != nil && e.to.dir.made != nil && !in(e.to.dir.made) && (e.what.dir || e.from != nil) {
			return false
		}
	}
	return true
}

// states lists what all admissible images look like.
func (o *oracle) states() []string {
	all := map[string]bool{}
	for _, set := range o.outcomes() {
		names := map[*object]map[string]*object{}
		for _, n := range o.objects {
			names[n] = map[string]*object{}
		}
		last := 0
		for i, e := range o.events {
			if !set[i] {
				continue
			}
			last = e.at
			if e.from != nil {
				delete(names[e.from.dir], e.from.name)
			}
			if e.to != nil {
				names[e.to.dir][e.to.name] = e.what
			}
		}
		for s := range o.tree(o.root, "", names, last) {
			all[s] = true
		}
	}
	out := slices.Sorted(maps.Keys(all))
	for i, s := range out {
		out[i] = "nothing"
		if s = strings.TrimSpace(s); s != "" {
			out[i] = s
		}
	}
	slices.Sort(out)
	return out
}

// tree lists what may be seen below dir.
func (o *oracle) tree(dir *object, prefix string, names map[*object]map[string]*object, last int) map[string]bool {
	out := map[string]bool{"": true}
	for _, name := range slices.Sorted(maps.Keys(names[dir])) {
		n := names[dir][name]
		here := map[string]bool{}
		if n.dir {
			for below := range o.tree(n, prefix+name+"/", names, last) {
				here[prefix+name+"/ "+below] = true
			}
		} else {
			for c := range o.file(n, last) {
				here[prefix+name+"="+describe([]byte(c))+" "] = true
			}
		}
		next := map[string]bool{}
		for a := range out {
			for b := range here {
				next[a+b] = true
			}
		}
		out = next
	}
	return out
}

// file lists the contents a file may have when the journal survived up to the moment last.
func (o *oracle) file(f *object, last int) map[string]bool {
	out := map[string]bool{}
	sectors := slices.Sorted(maps.Keys(f.history))
	for kept := 0; kept <= len(f.sizes); kept++ {
		if !o.sizesOK(f, kept, last) {
			continue
		}
		size := int64(0)
		if kept > 0 {
			size = f.sizes[kept-1].size
		}
		var try func(i int, b []byte)
		try = func(i int, b []byte) {
			if i == len(sectors) {
				out[string(b[:size])] = true
				return
			}
			for v := -1; v < len(f.history[sectors[i]]); v++ {
				if !o.contentsOK(f, kept, sectors[i], v) {
					continue
				}
				c := slices.Clone(b)
				if v >= 0 {
					copy(c[sectors[i]*sectorSize:], f.history[sectors[i]][v].data)
				}
				try(i+1, c)
			}
		}
		try(0, make([]byte, 16*sectorSize))
	}
	return out
}

func (o *oracle) sizesOK(f *object, kept, last int) bool {
	for i, s := range f.sizes {
		if s.at <= f.synced && i >= kept {
			return false
		}
		if o.personality == Ordered && s.explicit && (s.at <= last) != (i < kept) {
			return false
		}
	}
	return true
}

// contentsOK reports whether sector s may have its v-th contents (-1: never written) with so many sizes.
func (o *oracle) contentsOK(f *object, kept int, s int64, v int) bool {
	h := f.history[s]
	at, next := 0, math.MaxInt // the contents are those between these moments
	if v >= 0 {
		at = h[v].at
	}
	if v+1 < len(h) {
		next = h[v+1].at
	}
	if next <= f.synced {
		return false
	}
	if o.personality == Adversarial {
		return true
	}
	for i, op := range f.sizes {
		shrinks := op.size < op.prev
		if i < kept {
			grown := !op.explicit && s >= op.prev/sectorSize && s*sectorSize < op.size
			cut := shrinks && s >= op.size/sectorSize
			if (grown || cut) && next <= op.at {
				return false
			}
		} else if shrinks && s/8 >= (op.size+4095)/4096 && at >= op.at {
			return false
		}
	}
	return true
}

var (
	files = []string{"a", "b", "d/a", "d/b", "e/a"}
	dirs  = []string{"d", "e", "d/e", "e/d"}
	both  = append(slices.Clone(files), dirs...)
)

func drawStep(t *rapid.T) string {
	pick := func(from []string) string { return rapid.SampledFrom(from).Draw(t, "path") }
	// Most steps act on few files, so that they meet.
	switch rapid.SampledFrom([]string{
		"create", "create", "mkdir", "mkdir", "remove", "rename", "rename", "write", "write", "write", "put",
		"truncate", "preallocate", "sync", "syncdir", "syncdir",
	}).Draw(t, "step") {
	case "create":
		return "create " + pick(files)
	case "mkdir":
		return "mkdir " + pick(dirs)
	case "remove":
		return "remove " + pick(both)
	case "rename":
		return "rename " + pick(both) + " " + pick(both)
	case "write":
		data := rapid.SampledFrom([]string{"A", "B", "CD", "EF"}).Draw(t, "data")
		return fmt.Sprintf("write %s %s @%d", pick(files), data, rapid.SampledFrom([]int{0, 0, 1, 2, 8}).Draw(t, "sector"))
	case "put":
		return fmt.Sprintf("put %s %s*300 @%d", pick(files), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "data"),
			rapid.SampledFrom([]int{0, 100, 400}).Draw(t, "off"))
	case "truncate":
		return fmt.Sprintf("truncate %s %d", pick(files), rapid.SampledFrom([]int{0, 100, 512, 1024, 1500, 5000}).Draw(t, "size"))
	case "preallocate":
		return fmt.Sprintf("preallocate %s %d", pick(files), rapid.SampledFrom([]int{512, 1500}).Draw(t, "size"))
	case "sync":
		return "sync " + pick(files)
	}
	return "syncdir " + rapid.SampledFrom([]string{".", ".", "d", "e"}).Draw(t, "dir")
}

// attempt carries out a step unless it cannot be: a path may be missing.
func attempt(d *Disk, line string) (ok bool) {
	w := strings.Fields(line)
	if p := w[1]; p != "." && w[0] != "create" && w[0] != "mkdir" {
		if _, _, err := d.Lookup(d.Root(), p); err != nil {
			return false
		}
	} else if parent := path.Dir(p); parent != "." {
		if _, _, err := d.Lookup(d.Root(), parent); err != nil {
			return false
		}
	}
	return step(d, line) == nil
}

// preludes are what programs start from, so that they soon meet.
var preludes = [][]string{
	nil,
	{"mkdir d", "mkdir e", "syncdir ."},
	{"create a", "write a AB", "sync a", "syncdir ."},
	{"create a", "write a AB", "sync a", "create b", "write b C", "mkdir d", "syncdir ."},
	{"mkdir d", "create d/a", "write d/a A", "sync d/a", "mkdir e", "syncdir .", "syncdir d"},
}

// drawProgram draws steps and carries them out on both, while what may be lost can still be listed.
func drawProgram(t *rapid.T, d *Disk, o *oracle) (done []string) {
	do := func(line string) {
		if attempt(d, line) {
			done = append(done, line)
			o.do(line)
		}
	}
	for _, line := range rapid.SampledFrom(preludes).Draw(t, "prelude") {
		do(line)
	}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		line := drawStep(t)
		if len(o.free()) < 8 && d.CrashCount() < 1000 && !atLimit(d) || strings.HasPrefix(line, "sync") {
			do(line)
		}
	}
	return done
}

// atLimit reports whether the next step could make the disk forget some contents or size, which the
// definition does not.
func atLimit(d *Disk) bool {
	for _, s := range d.table {
		if len(s.node.sizes) >= pendingSizesMax {
			return true
		}
		for i := range s.node.dirty {
			if len(s.node.dirty[i].mid)+2 >= versionsMax {
				return true
			}
		}
	}
	return false
}

// The enumeration is exactly the definition, for any program.
func TestEnumerationIsTheDefinition(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		rapid.Check(t, func(t *rapid.T) {
			d, o := New(p), newOracle(p)
			done := drawProgram(t, d, o)
			if want := o.states(); !slices.Equal(want, states(d)) {
				t.Fatalf("after\n%s\nmissing %q\ntoo many %q", strings.Join(done, "\n"),
					minus(want, states(d)), minus(states(d), want))
			}
		})
	})
}

func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
