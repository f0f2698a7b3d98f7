package disk

import (
	"iter"
	"math"
	"math/bits"
)

// Count says what an enumeration of crash images came to.
type Count struct {
	Images     uint64 // distinct images handed out
	Duplicates uint64 // outcomes that led to an image seen before
	Skipped    uint64 // outcomes that were not looked at; math.MaxUint64 when there are more than can be counted
}

// Crashes enumerates what a power loss may leave, each distinct image once, at most limit of them (0: all).
// An image has no handles and is independent of d and of the others. When there are far more outcomes than
// the limit allows, the images are a sample: first every crash "in order", where all operations up to some
// moment survive and none after it, then others drawn evenly. The order is the same every time.
//
// The disk may change while the enumeration runs: it works on a copy taken when it starts.
func (d *Disk) Crashes(limit int) iter.Seq[*Disk] { return d.CrashesCounted(limit, nil) }

// CrashesCounted is Crashes that fills in count, when not nil, as it ends.
func (d *Disk) CrashesCounted(limit int, count *Count) iter.Seq[*Disk] {
	return func(yield func(*Disk) bool) {
		e := enumeration{d: d.Clone(), seen: make(map[uint64]struct{}), yield: yield, left: math.MaxInt}
		if limit > 0 {
			e.left = limit
		}
		if count != nil {
			defer func() { *count = e.count }()
		}
		e.run()
	}
}

// CrashCount returns the number of outcomes of a power loss, saturating at math.MaxUint64. Several may lead
// to the same image.
func (d *Disk) CrashCount() uint64 {
	e := enumeration{d: d.Clone()}
	return e.total(math.MaxUint64)
}

// outcomesPerImage is how many outcomes an enumeration looks at for each image it may hand out.
const outcomesPerImage = 16

// Outcomes of the names that counting looks at: at most, and when there are more images than needed anyway.
const (
	namesCountedMax  = 1 << 12
	namesCountedSoon = 1 << 8
)

type enumeration struct {
	d     *Disk
	seen  map[uint64]struct{} // hashes of the images handed out
	yield func(*Disk) bool
	left  int // images that may still be handed out
	count Count

	ch    choice
	last  uint64       // Ordered: stamp of the last journal entry that survives
	files []fileStates // for each file of ch
}

// fileStates is a file's place in the walk through its states.
type fileStates struct {
	path   uint64
	size   int64
	clean  map[int64]uint64 // hash of what is not dirty, by size
	base   uint64           // for the current size
	states [][]state        // for each dirty sector: contents to choose from
}

type state struct {
	version int
	hash    uint64
}

func (e *enumeration) run() {
	budget := uint64(math.MaxUint64)
	if e.left != math.MaxInt {
		budget = uint64(e.left) * outcomesPerImage
	}
	total := e.total(budget)
	if total <= budget {
		e.names(0)
	} else {
		e.sample(budget)
	}
	if looked := e.count.Images + e.count.Duplicates; total == math.MaxUint64 {
		e.count.Skipped = total
	} else if total > looked {
		e.count.Skipped = total - looked
	}
}

// names walks through the outcomes for pending operations i and later; it reports whether to go on.
func (e *enumeration) names(i int) bool {
	e.ch.ops = resized(e.ch.ops, len(e.d.pending))
	if i == len(e.ch.ops) {
		return e.space(e.visit)
	}
	e.ch.ops[i] = false
	if e.d.personality == Ordered {
		clear(e.ch.ops[i:])
		if !e.space(e.visit) {
			return false
		}
	} else if !e.names(i + 1) {
		return false
	}
	if e.d.personality == Adversarial && !e.d.allowed(e.ch.ops[:i], &e.d.pending[i]) {
		return true
	}
	e.ch.ops[i] = true
	return e.names(i + 1)
}

// space sets up the walk through the states of all files below the current names.
func (e *enumeration) space(then func(fixed uint64) bool) bool {
	e.d.spread(&e.ch.space, e.ch.ops)
	e.last = e.ch.journalCut(e.d)
	e.ch.files = e.ch.files[:0]
	e.files = e.files[:0]
	fixed := e.walk(e.d.node(rootIno), nameKey)
	// The walk met files in the order of names; an image wants them in the order of numbers.
	for i := 1; i < len(e.files); i++ {
		for k := i; k > 0 && e.ch.files[k].node.ino < e.ch.files[k-1].node.ino; k-- {
			e.files[k], e.files[k-1] = e.files[k-1], e.files[k]
			e.ch.files[k], e.ch.files[k-1] = e.ch.files[k-1], e.ch.files[k]
		}
	}
	return then(fixed)
}

// walk returns the hash of all below dir that has one state and collects the files that have several.
func (e *enumeration) walk(dir *inode, path uint64) (h uint64) {
	for _, entry := range e.ch.space.entries(dir) {
		n, p := e.d.node(entry.ino), hashName(path, entry.name)
		switch {
		case n.dir:
			h += hashDir(p) + e.walk(n, p)
		case n.unsynced():
			f := e.ch.add(n)
			f.versions = resized(f.versions, len(n.dirty))
			if len(e.files) < cap(e.files) {
				e.files = e.files[:len(e.files)+1]
			} else {
				e.files = append(e.files, fileStates{})
			}
			s := &e.files[len(e.files)-1]
			s.path = p
			s.clean = make(map[int64]uint64)
		default:
			h += hashFile(p, n.size, n.content.hash(n.size))
		}
	}
	return h
}

// visit walks through all states of the files.
func (e *enumeration) visit(fixed uint64) bool { return e.file(0, fixed) }

// file walks through the states of files i and later; h is the hash of the rest.
func (e *enumeration) file(i int, h uint64) bool {
	if i == len(e.ch.files) {
		return e.image(h)
	}
	f := &e.ch.files[i]
	low, high := e.d.sizeWindow(f.node, e.last)
	for f.sizes = low; f.sizes <= high; f.sizes++ {
		e.files[i].prepare(e.d, f)
		if !e.sector(i, 0, e.files[i].base, h) {
			return false
		}
	}
	return true
}

// sector walks through the contents of sectors k and later of file i.
func (e *enumeration) sector(i, k int, content, h uint64) bool {
	s := &e.files[i]
	if k == len(s.states) {
		return e.file(i+1, h+hashFile(s.path, s.size, content))
	}
	for _, st := range s.states[k] {
		e.ch.files[i].versions[k] = st.version
		if !e.sector(i, k+1, content+st.hash, h) {
			return false
		}
	}
	return true
}

// prepare lists the contents each dirty sector may have with the chosen size, those that look alike once.
func (s *fileStates) prepare(d *Disk, f *fileChoice) {
	n := f.node
	s.size = n.sizeAt(f.sizes)
	base, ok := s.clean[s.size]
	if !ok {
		base = n.cleanContentHash(s.size)
		s.clean[s.size] = base
	}
	s.base = base
	s.states = resized(s.states, len(n.dirty))
	for i := range n.dirty {
		e := &n.dirty[i]
		low, high := d.versionWindow(n, f.sizes, e)
		if e.number*sectorSize >= s.size {
			high = low
		}
		states := s.states[i][:0]
		for v := low; v <= high; v++ {
			h := hashSectorTo(e.number, e.data(n, v), s.size)
			if !holds(states, h) {
				states = append(states, state{v, h})
			}
		}
		s.states[i] = states
	}
}

func holds(states []state, h uint64) bool {
	for _, s := range states {
		if s.hash == h {
			return true
		}
	}
	return false
}

// image hands out the image of the current choice, unless one like it was handed out already.
func (e *enumeration) image(h uint64) bool {
	if _, ok := e.seen[h]; ok {
		e.count.Duplicates++
		return true
	}
	if e.left == 0 {
		return false
	}
	e.left--
	e.seen[h] = struct{}{}
	e.count.Images++
	return e.yield(e.d.image(&e.ch, new(owner)))
}

// total counts the outcomes; math.MaxUint64 stands for more than budget, too.
func (e *enumeration) total(budget uint64) uint64 {
	sum, spaces := uint64(0), 0
	full := e.countNames(0, &spaces, func(uint64) bool {
		product := uint64(1)
		for i := range e.ch.files {
			product = saturatingMul(product, e.countFile(i))
		}
		sum += product
		return sum >= product && product != math.MaxUint64 && (sum <= budget || spaces < namesCountedSoon)
	})
	if !full {
		return math.MaxUint64
	}
	return sum
}

// countNames calls then for each outcome of the names, and reports whether it went through them all.
func (e *enumeration) countNames(i int, spaces *int, then func(uint64) bool) bool {
	e.ch.ops = resized(e.ch.ops, len(e.d.pending))
	if i == 0 {
		clear(e.ch.ops)
	}
	if e.d.personality == Ordered || i == len(e.ch.ops) {
		if *spaces++; *spaces > namesCountedMax || !e.space(then) {
			return false
		}
		if i == len(e.ch.ops) {
			return true
		}
	} else if !e.countNames(i+1, spaces, then) {
		return false
	}
	if e.d.personality == Adversarial && !e.d.allowed(e.ch.ops[:i], &e.d.pending[i]) {
		return true
	}
	e.ch.ops[i] = true
	more := e.countNames(i+1, spaces, then)
	e.ch.ops[i] = false
	return more
}

func (e *enumeration) countFile(i int) (sum uint64) {
	f := &e.ch.files[i]
	low, high := e.d.sizeWindow(f.node, e.last)
	for f.sizes = low; f.sizes <= high; f.sizes++ {
		e.files[i].prepare(e.d, f)
		product := uint64(1)
		for _, states := range e.files[i].states {
			product = saturatingMul(product, uint64(len(states)))
		}
		if sum += product; sum < product {
			return math.MaxUint64
		}
	}
	return sum
}

func saturatingMul(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return math.MaxUint64
	}
	return low
}

// sample hands out images of outcomes in order, and then of drawn ones, looking at budget outcomes at most.
func (e *enumeration) sample(budget uint64) {
	first := e.d.firstPending()
	cuts := e.d.stamp - first + 2
	for step, cut := cuts/(budget/2)+1, uint64(0); cut < cuts; cut += step {
		if !e.drawn(&script{byTime, int(cut)}) {
			return
		}
		budget--
	}
	rng := &splitmix{state: first}
	for ; budget > 0; budget-- {
		if !e.drawn(rng) {
			return
		}
	}
}

// drawn hands out the image that c chooses.
func (e *enumeration) drawn(c Chooser) bool {
	ch := e.d.choose(c)
	img := e.d.image(ch, new(owner))
	h := img.hash()
	if _, ok := e.seen[h]; ok {
		e.count.Duplicates++
		return true
	}
	if e.left == 0 {
		return false
	}
	e.left--
	e.seen[h] = struct{}{}
	e.count.Images++
	return e.yield(img)
}

// script is a Chooser that gives its numbers one after the other, then zeros.
type script []int

// Choose implements Chooser.
func (s *script) Choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	v := (*s)[0]
	*s = (*s)[1:]
	return v % n
}

// splitmix is a Chooser with a fixed sequence.
type splitmix struct{ state uint64 }

// Choose implements Chooser.
func (s *splitmix) Choose(n int) int {
	s.state += hashKey
	high, _ := bits.Mul64(mix(s.state, noiseKey), uint64(n))
	return int(high)
}
