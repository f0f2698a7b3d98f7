package committer

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
	"narad/vfs"
)

// view is what an image of the disk shows of the partition: all that a later process could tell it by.
type view struct {
	gone       bool // the path leads nowhere
	ahead      int64
	tmp        [2]int64 // sizes of what replaces consumer.ahead and consumer.offset, -1: not there
	slot       [slotCount]slotView
	offset     int64
	offsetKind uint8 // 0 absent, 1 a frontier, 2 unusable
}

type slotView struct {
	kind     uint8 // 0 blank, 1 a record, 2 of another identity, 3 unusable
	sequence uint64
	settled  offsets
}

// look says when the images were enumerated, so that it is not done again before anything changed.
type look struct {
	changes     int
	durable     offsets
	stale, gone bool
	incarnation uint64
	disk        *disk.Disk
}

// lookAtImages checks INV-11 and INV-25 on every image that a power loss could leave now.
func (s *system) lookAtImages() {
	now := look{s.changes, s.durable, s.stale, s.gone, s.incarnation, s.rig.disk}
	if now == s.lookedAt {
		return // acks were added at most, and what an image holds is settled still
	}
	s.lookedAt = now
	s.views = s.views[:0]
	for img := range s.rig.disk.Crashes(0) {
		s.images++
		v, got := s.viewOf(img)
		s.views = append(s.views, v)
		switch {
		case s.gone != v.gone:
			s.failf("COM-44: the directory is gone %v, in an image %v", s.gone, v.gone)
		case s.gone:
		case s.stale:
			if v.ahead >= 0 || v.offset >= 0 {
				s.failf("INV-25: a stale shard's files in the new directory: %+v", v)
			}
		case !got.in(s.acked):
			s.failf("INV-11: recovered %03b, acked %03b", got, s.acked)
		case !s.durable.in(got):
			s.failf("INV-11: recovered %03b, durable %03b", got, s.durable)
		}
	}
}

// viewOf reads an image as recovery does.
func (s *system) viewOf(d *disk.Disk) (v view, recovered offsets) {
	v.ahead, v.tmp, v.offset = -1, [2]int64{-1, -1}, -1
	root, err := disk.FS(d).OpenRoot("p0", false)
	if err != nil {
		v.gone = true
		return v, 0
	}
	infos, err := root.List()
	if err != nil {
		s.failf("list: %v", err)
	}
	for _, info := range infos {
		switch info.Name {
		case AheadFile:
			v.ahead = info.Size
		case AheadFile + ".tmp":
			v.tmp[0] = info.Size
		case OffsetFile + ".tmp":
			v.tmp[1] = info.Size
		case OffsetFile:
		default:
			s.failf("a file %s", info.Name)
		}
	}
	if len(infos) == 0 {
		return v, 0
	}
	st, report, err := Recover(root, s.incarnation, 3)
	if err != nil {
		s.failf("recover: %v", err)
	}
	for i, r := range report.Slots.Slot {
		v.slot[i] = slotViewOf(r)
	}
	v.offset = report.OffsetFrontier
	switch {
	case report.OffsetErr != nil:
		v.offsetKind = 2
	case v.offset >= 0:
		v.offsetKind = 1
	}
	return v, setOf(st)
}

func slotViewOf(r SlotReport) slotView {
	if r.Err == nil {
		return slotView{1, r.Sequence, setOf(r.State)}
	}
	switch r.Err.(*CorruptError).Cause {
	case ErrBlank:
		return slotView{}
	case ErrMagic, ErrVersion, ErrLength, ErrChecksum, ErrContent:
		return slotView{kind: 3}
	}
	return slotView{kind: 2}
}

// hasher is FNV-1a by words.
type hasher uint64

func (h *hasher) add(words ...uint64) {
	for _, w := range words {
		x := (uint64(*h) ^ w) * 0x9e3779b97f4a7c15
		*h = hasher(x ^ x>>29)
	}
}

func (h *hasher) flags(bits ...bool) {
	var w uint64
	for i, b := range bits {
		if b {
			w |= 1 << i
		}
	}
	h.add(w)
}

// canon writes states in a normal form. States that differ only by the numbers that the sequence happens to have,
// or by which of the two slots is which, have the same future: code compares sequences, adds one to the highest, and
// treats the slots alike.
type canon struct {
	sequences []uint64
	swap      bool
}

func (c *canon) note(v view) {
	for _, s := range v.slot {
		if s.kind == 1 {
			c.sequences = append(c.sequences, s.sequence)
		}
	}
}

func (c *canon) rank(sequence uint64) uint64 {
	at, _ := slices.BinarySearch(c.sequences, sequence)
	return uint64(at)
}

func (c *canon) index(slot int) uint64 {
	if slot >= 0 && c.swap {
		slot = 1 - slot
	}
	return uint64(slot)
}

func (c *canon) view(v view) uint64 {
	if c.swap {
		v.slot[0], v.slot[1] = v.slot[1], v.slot[0]
	}
	var h hasher
	h.flags(v.gone)
	h.add(uint64(v.ahead), uint64(v.tmp[0]), uint64(v.tmp[1]), uint64(v.offset), uint64(v.offsetKind))
	for _, s := range v.slot {
		h.add(uint64(s.kind), uint64(s.settled))
		if s.kind == 1 {
			h.add(c.rank(s.sequence))
		}
	}
	return uint64(h)
}

func (c *canon) sum(views []view) (sum uint64) {
	for _, v := range views {
		sum += c.view(v)
	}
	return sum
}

// fingerprint tells states apart by all that can matter later: what can be seen of the disk now and in every
// image, the committer's roles, and what the oracle knows.
func (s *system) fingerprint() uint64 {
	visible, _ := s.viewOf(s.rig.disk)
	var synced []view // pages that are clean and lost: the same images now, others after a sync
	if s.lostPages && !s.gone {
		synced = s.afterSync()
	}
	c := canon{swap: visible.slot[1].kind == 1 && (visible.slot[0].kind != 1 || visible.slot[1].sequence > visible.slot[0].sequence)}
	c.note(visible)
	for _, v := range slices.Concat(s.views, synced) {
		c.note(v)
	}
	p := s.part()
	if p != nil {
		c.sequences = append(c.sequences, p.seq)
	}
	slices.Sort(c.sequences)
	c.sequences = slices.Compact(c.sequences)

	var h hasher
	h.add(c.view(visible), c.sum(s.views), c.sum(synced))
	h.flags(s.primed, s.stale, s.gone, s.lostPages)
	if !s.stale {
		h.add(uint64(s.acked), uint64(s.durable))
	}
	h.add(uint64(s.cached), uint64(s.window), c.index(s.anchor))
	current := s.currentDir()
	if live := s.shards[s.k]; live != nil {
		h.add(uint64(setOf(live.State)))
		h.flags(live.Dir == current, live.identity == s.incarnation)
	}
	r := &s.c.roster
	h.add(uint64(len(r.dirty)), uint64(len(r.touched)), uint64(len(r.suspect)))
	if p != nil {
		h.add(c.index(p.anchor), c.rank(p.seq), uint64(p.durable), uint64(p.written), uint64(p.level))
		h.flags(p.unsynced, p.distrust, p.recheck, p.flipped, p.leveled, p.stranded, p.missed, p.handle != nil, p.dir == current)
	}
	return uint64(h)
}

func (s *system) currentDir() vfs.ID {
	info, err := s.operator().Stat("p0")
	if err != nil {
		return vfs.ID{}
	}
	return info.ID
}

func (s *system) afterSync() (views []view) {
	d := s.rig.disk.Clone()
	root, err := disk.FS(d).OpenRoot("p0", false)
	require.NoError(s.t, err)
	for _, name := range []string{AheadFile, OffsetFile} {
		if f, err := root.Open(name); err == nil {
			require.NoError(s.t, f.Sync())
		}
	}
	require.NoError(s.t, root.Sync())
	for img := range d.Crashes(0) {
		v, _ := s.viewOf(img)
		views = append(views, v)
	}
	return views
}

// clone returns an independent copy that reports to t.
func (s *system) clone(t testing.TB) *system {
	c := *s
	c.views, c.images = slices.Clone(s.views), 0
	c.rig = &rig{t: t, still: &still{now: s.still.now}, disk: s.rig.disk.Clone(), shards: map[Key]*shard{}}
	if c.lookedAt.disk == s.rig.disk {
		c.lookedAt.disk = c.rig.disk
	}
	for k, live := range s.shards { // order-free: copies a map
		c.shards[k] = &shard{State{live.Committed, slices.Clone(live.Ahead), live.Dir}, live.identity}
	}
	c.rig.hook = c.beforeOp
	c.open()
	c.start(func(o *Options) { o.Event = c.onEvent })
	c.c.tickNo = s.c.tickNo
	to, from := &c.c.roster, &s.c.roster
	to.turn, to.writes = from.turn, from.writes
	to.dirty, to.touched = slices.Clone(from.dirty), slices.Clone(from.touched)
	for k := range from.dirtySet { // order-free: copies a set
		to.dirtySet[k] = struct{}{}
	}
	for k := range from.suspect { // order-free: copies a set
		to.suspect[k] = struct{}{}
	}
	twins := map[*part]*part{nil: nil}
	if p := s.part(); p != nil {
		twin := *p
		twin.pending, twin.behind, twin.offered = false, false, 0
		if p.handle != nil {
			twin.handle = disk.Twin(c.fs, p.handle)
			to.held++
		}
		twins[p] = &twin
		to.parts[s.k] = &twin
		to.settle(&twin)
	}
	for i := range to.dirty {
		p := to.dirty[i].p
		if twins[p] == nil && p != nil { // forgotten since; systems of other goroutines share nothing with this one
			gone := *p
			twins[p] = &gone
		}
		to.dirty[i].p = twins[p]
	}
	return &c
}

// step is an action with all the ways it can go.
type step struct {
	name string
	ways func(s *system) []func(s *system) bool
}

// one is a step that goes one way.
func one(do func(s *system) bool) func(*system) []func(*system) bool {
	return func(*system) []func(*system) bool { return []func(*system) bool{do} }
}

// ackAhead settles any one offset that is not the lowest unsettled.
func ackAhead(s *system) (ways []func(*system) bool) {
	live := s.shards[s.k]
	if live == nil {
		return nil
	}
	for o := live.Committed + 2; o < 3; o++ {
		if setOf(live.State)&(1<<o) == 0 {
			ways = append(ways, ack(func(*system) int64 { return o }))
		}
	}
	return ways
}

// prime is the first half of a tick.
func prime(s *system) bool {
	r := &s.c.roster
	if s.part() != nil || len(r.dirty)+len(r.touched) == 0 {
		return false
	}
	r.turn = r.turnOf(s.k)
	s.c.beginTick()
	for _, k := range r.takeTouched(nil, s.c.now.Start, false) {
		s.c.touchStep(k)
	}
	for _, k := range r.takeDirty(nil) {
		s.c.primeStep(k)
		r.mark(k.key)
	}
	s.c.flushDevices()
	return true
}

// crashes kill the process between two operations, or within a tick or a level before one of their changes.
func crashes(s *system) []func(*system) bool {
	ways := []func(*system) bool{func(s *system) bool { s.rig.disk.ProcessCrash(); s.restart(); return true }}
	for n := 1; n <= 4; n++ {
		ways = append(ways, tickThatDies(n))
	}
	for _, n := range []int{2, 4, 5, 6} {
		ways = append(ways, levelThatDies(n))
	}
	return ways
}

// powerLosses go on with each of the images.
func powerLosses(s *system) (ways []func(*system) bool) {
	for img := range s.rig.disk.Crashes(0) {
		ways = append(ways, func(s *system) bool {
			s.rig.disk = img
			s.cached = 0 // its loss was judged on the image
			s.lostPages = false
			s.changes++
			s.restart()
			s.durable = s.cached
			return true
		})
	}
	return ways
}

func writeoutFailures(s *system) []func(*system) bool {
	return []func(*system) bool{writeoutThatFails(true), writeoutThatFails(false)}
}

// twelve are the actions that are tried in every order up to length 7.
var twelve = []step{
	{"ack in order", one(ack(func(s *system) int64 { return s.shards[s.k].Committed + 1 }))},
	{"ack out of order", ackAhead},
	{"tick", one((*system).tickOnly)},
	{"writeout ok", one(writeout)},
	{"writeout fails", writeoutFailures},
	{"level", one(level)},
	{"process crash", crashes},
	{"power loss", powerLosses},
	{"prime", one(prime)},
	{"forget", one(actionNamed("forget"))},
	{"replace directory", one(actionNamed("replace directory"))},
	{"close", one(closeAll)},
}

func actionNamed(name string) func(*system) bool {
	return actions[slices.IndexFunc(actions, func(a action) bool { return a.name == name })].do
}

// many are finer actions, with more failures, tried up to a smaller length.
func many() (steps []step) {
	for _, a := range actions {
		steps = append(steps, step{a.name, one(a.do)})
	}
	return append(steps, step{"power loss", powerLosses})
}

// way is one way of one step.
type way struct{ step, way uint8 }

// explorer walks all sequences of steps, breadth first. States that have the same fingerprint are one, reached by several
// sequences.
type explorer struct {
	t       *testing.T
	steps   []step
	unmixed bool // go on from every sequence, whatever state it leads to

	mu     sync.Mutex // guards the fields below
	seen   map[uint64]int32
	next   [][]int32 // by state: where each way leads
	moves  int
	images int
	byStep []int
}

func newExplorer(t *testing.T, steps []step) *explorer {
	return &explorer{t: t, steps: steps, seen: map[uint64]int32{}, byStep: make([]int, len(steps))}
}

// node is a state to go on from.
type node struct {
	path  []way
	state *system
	id    int32
}

// witness adds the sequence to a failure.
type witness struct {
	*testing.T
	steps []step
	path  []way
}

// Helper is on every path of every check, and slow.
func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	var names []string
	for _, p := range w.path {
		names = append(names, fmt.Sprintf("%s (%d)", w.steps[p.step].name, p.way))
	}
	w.T.Errorf("after %s:\n"+format, append([]any{strings.Join(names, "; ")}, args...)...)
}

// add returns the number of a state and whether it is new. x.mu must be held.
func (x *explorer) add(fingerprint uint64) (id int32, fresh bool) {
	id, known := x.seen[fingerprint]
	if !known {
		id = int32(len(x.next))
		x.seen[fingerprint] = id
		x.next = append(x.next, nil)
	}
	return id, !known
}

// from returns the state after a sequence of steps by name, each going its first way.
func (x *explorer) from(text string) node {
	w := &witness{T: x.t, steps: x.steps}
	s := newSystem(w)
	for name := range strings.SplitSeq(text, "; ") {
		for i, st := range x.steps {
			if st.name == name {
				w.path = append(w.path, way{uint8(i), 0})
				require.True(w, st.ways(s)[0](s), name)
				s.rig.hook = s.beforeOp
			}
		}
	}
	s.check = true
	s.lookAtImages()
	id, _ := x.add(s.fingerprint())
	return node{w.path, s, id}
}

// run explores all sequences of up to depth steps that begin with root.
func (x *explorer) run(root node, depth int) {
	level := []node{root}
	for d := range depth {
		level = x.expand(level, d+1 < depth)
		if x.t.Failed() {
			return
		}
	}
}

// expand takes every step from every node, on all cores. It returns the new states, if they are to be kept.
func (x *explorer) expand(level []node, keep bool) (fresh []node) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := next.Add(1) - 1; i < int64(len(level)) && !x.t.Failed(); i = next.Add(1) - 1 {
				x.leave(&level[i], func(n node) {
					if keep {
						fresh = append(fresh, n)
					}
				})
				level[i].state = nil
			}
		}()
	}
	group.Wait()
	slices.SortFunc(fresh, func(a, b node) int { return slices.CompareFunc(a.path, b.path, compareWays) })
	return fresh
}

func compareWays(a, b way) int { return int(a.step)<<8 + int(a.way) - int(b.step)<<8 - int(b.way) }

// leave takes every way of every step from n.
func (x *explorer) leave(n *node, found func(node)) {
	for i, st := range x.steps {
		for k, do := range st.ways(n.state) {
			path := append(slices.Clone(n.path), way{uint8(i), uint8(k)})
			s := n.state.clone(&witness{T: x.t, steps: x.steps, path: path})
			ok := do(s)
			s.rig.hook = s.beforeOp
			var print uint64
			if ok {
				s.lookAtImages()
				print = s.fingerprint()
			}
			x.mu.Lock()
			x.images += s.images
			if ok {
				x.moves++
				x.byStep[i]++
				id, fresh := x.add(print)
				x.next[n.id] = append(x.next[n.id], id)
				if fresh || x.unmixed {
					found(node{path, s, id})
				}
			}
			x.mu.Unlock()
		}
	}
}

// sequences counts the sequences of 1 to depth steps from a state, each way of a step for itself.
func (x *explorer) sequences(from int32, depth int) (total uint64) {
	reached := map[int32]uint64{from: 1}
	for range depth {
		after := map[int32]uint64{}
		for id, n := range reached { // order-free: sums
			for _, to := range x.next[id] {
				after[to] += n
				total += n
			}
		}
		reached = after
	}
	return total
}

func depth(short, long int) int {
	if os.Getenv("NARAD_LONG") == "1" {
		return long
	}
	return short
}

// INV-08 (what a window write put into the page cache), INV-10, INV-11, INV-12, INV-25, COM-14..COM-18, COM-20..COM-25,
// COM-31, COM-37..COM-45: every sequence of seven of the twelve actions over three offsets, each in every way it can go,
// with every admissible image of a power loss before each operation that changes the disk and after each action.
func TestEverySequence(t *testing.T) {
	d := depth(7, 9)
	x := newExplorer(t, twelve)
	start := time.Now()
	root := x.from("")
	x.run(root, d)
	require.False(t, t.Failed())
	t.Logf("%d actions to length %d: %d sequences, %d distinct states, %d moves taken, %d crash images in %v",
		len(x.steps), d, x.sequences(root.id, d), len(x.next), x.moves, x.images, time.Since(start).Round(time.Millisecond))
	for i, n := range x.byStep {
		require.Positive(t, n, "%s never made sense", x.steps[i].name)
	}
}

// States that count as one have one future: going on from every single sequence reaches no state that is not reached when
// only one sequence to each state is gone on from.
func TestMergedStatesAreOne(t *testing.T) {
	d := depth(3, 5)
	merged, unmixed := newExplorer(t, twelve), newExplorer(t, twelve)
	unmixed.unmixed = true
	merged.run(merged.from(""), d)
	unmixed.run(unmixed.from(""), d)
	require.False(t, t.Failed())
	require.Greater(t, unmixed.moves, 2*merged.moves)
	require.Len(t, unmixed.seen, len(merged.seen))
	for print := range unmixed.seen { // order-free: each is looked up
		require.Contains(t, merged.seen, print)
	}
	t.Logf("length %d: %d moves merged, %d not", d, merged.moves, unmixed.moves)
}

// roots are sequences to go on from: a bug of the prime or the flip shows only some steps after these.
var roots = []string{
	"",
	"ack lowest; tick; writeout; ack highest; tick",
	"ack lowest; tick; writeout; ack highest; tick; process crash",
	"ack lowest; tick; writeout; ack lowest; tick; writeout; level; ack highest",
}

// The same with finer actions: failures of single operations, deaths of the process within them, a directory removed.
func TestEverySequenceWithFailures(t *testing.T) {
	d := depth(4, 6)
	x := newExplorer(t, many())
	start := time.Now()
	var sequences uint64
	for _, text := range roots {
		root := x.from(text)
		x.run(root, d)
		require.False(t, t.Failed())
		sequences += x.sequences(root.id, d)
	}
	t.Logf("%d actions to length %d from %d roots: %d sequences, %d distinct states, %d moves taken, %d crash images in %v",
		len(x.steps), d, len(roots), sequences, len(x.next), x.moves, x.images, time.Since(start).Round(time.Millisecond))
	for i, n := range x.byStep {
		require.Positive(t, n, "%s never made sense", x.steps[i].name)
	}
}
