package committer

import (
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
	"narad/vfs"
)

// offsets is a set of the offsets 0, 1 and 2.
type offsets uint8

const allOffsets offsets = 1<<3 - 1

func setOf(s State) (o offsets) {
	for i := int64(0); i <= s.Committed; i++ {
		o |= 1 << i
	}
	for _, i := range s.Ahead {
		o |= 1 << i
	}
	return o
}

func (o offsets) in(p offsets) bool { return o&^p == 0 }

// system is one partition with its committer, its disk, and what must be true of them.
type system struct {
	*rig
	k     Key
	check bool // look at all crash images of the operations to come

	incarnation uint64  // identity of the directory at the path and of the shard that will be made from it
	acked       offsets // by clients, of this incarnation
	durable     offsets // what the last successful writeout or prime made durable
	cached      offsets // what the last successful window write put into the page cache
	window      offsets // in the window
	anchor      int     // slot that must not be written, -1: none
	primed      bool    // since the start or the forget
	stale       bool    // the path does not lead to the live shard's directory
	gone        bool    // the path leads nowhere
	retired     int

	imageSum uint64
	images   int
}

func newSystem(t testing.TB) *system {
	s := &system{k: part0(0), incarnation: 1, anchor: noSlot}
	s.rig = newRig(t, 1, func(o *Options) { o.Event = s.onEvent })
	s.rig.hook = s.beforeOp
	return s
}

// onEvent follows the shadow of the disk that the invariants are stated in.
func (s *system) onEvent(v Event) {
	switch v := v.(type) {
	case Primed:
		if v.Err == nil {
			s.primed, s.anchor = true, v.Anchor
			s.durable |= s.cached
		}
	case WindowWritten:
		if v.Err == nil {
			require.True(s.t, s.primed, "INV-12: a window before the prime")
			s.window = setOf(s.shards[s.k].State)
			s.cached = s.window
		}
	case WrittenOut:
		if v.Err == nil {
			s.durable, s.anchor = s.window, v.Slot
		} else {
			s.cached = s.durable // INV-08: until the next full rewrite
		}
	}
}

// beforeOp looks at the world before an operation changes it.
func (s *system) beforeOp(op disk.Op) error {
	if op.Kind == disk.OpWrite && op.Path == "p0/consumer.ahead" && s.primed {
		require.NotEqual(s.t, int64(s.anchor), op.Off/slotSize, "COM-14: write to the anchor")
	}
	require.NotEqual(s.t, disk.OpMkdir, op.Kind, "COM-44: the committer made a directory")
	if s.check && op.Kind.Changes() {
		s.lookAtImages()
	}
	return nil
}

// lookAtImages checks INV-11 and INV-25 on every image that a power loss could leave now.
func (s *system) lookAtImages() {
	s.imageSum = 0
	for img := range s.rig.disk.Crashes(0) {
		s.images++
		s.imageSum += img.Hash()
		root, err := disk.FS(img).OpenRoot("p0", false)
		if s.gone {
			require.Error(s.t, err, "COM-44: the directory is back")
			continue
		}
		require.NoError(s.t, err)
		st, report, err := Recover(root, s.incarnation, 3)
		require.NoError(s.t, err)
		if s.stale {
			require.False(s.t, report.Slots.Exists, "INV-25: a stale shard's consumer.ahead in the new directory")
			require.Equal(s.t, int64(-1), report.OffsetFrontier, "INV-25: a stale shard's consumer.offset")
			continue
		}
		got := setOf(st)
		require.True(s.t, got.in(s.acked), "INV-11: recovered %03b, acked %03b", got, s.acked)
		require.True(s.t, s.durable.in(got), "INV-11: recovered %03b, durable %03b", got, s.durable)
	}
}

// operator does what is not the committer's doing, unseen by hooks.
func (s *system) operator() vfs.Dir {
	root, err := disk.FS(s.rig.disk).OpenRoot("/", false)
	require.NoError(s.t, err)
	return root
}

// makeShard reads the state files as they can be read now.
func (s *system) makeShard() {
	if s.gone {
		require.NoError(s.t, s.operator().Mkdir("p0"))
		require.NoError(s.t, s.operator().Sync())
		s.gone = false
	}
	if s.stale {
		s.stale = false
		s.acked, s.durable, s.cached = 0, 0, 0
	}
	dir, err := s.operator().OpenDir("p0")
	require.NoError(s.t, err)
	st, _, err := Recover(dir, s.incarnation, 3)
	require.NoError(s.t, err)
	got := setOf(st)
	require.True(s.t, got.in(s.acked), "recovered %03b, acked %03b", got, s.acked)
	require.True(s.t, s.cached.in(got), "INV-08: recovered %03b, in the page cache %03b", got, s.cached)
	s.cached = got
	s.shards[s.k] = &shard{State: st, identity: s.incarnation}
	s.primed, s.anchor = false, noSlot
}

// restart starts the next process on the disk.
func (s *system) restart() {
	clear(s.shards)
	s.rig.hook = s.beforeOp
	s.open()
	s.start(func(o *Options) { o.Event = s.onEvent })
	s.makeShard()
	s.c.Touch(s.k)
}

// die lets every operation from the n-th changing one on have no effect, as if the process were dead.
func (s *system) die(n int) {
	s.rig.hook = func(op disk.Op) error {
		if op.Kind.Changes() {
			n--
		}
		if n <= 0 {
			return vfs.ErrLocked
		}
		return s.beforeOp(op)
	}
}

// fail lets the first operation of a kind fail.
func (s *system) fail(kind disk.OpKind, effect func(op disk.Op) error) {
	armed := true
	s.rig.hook = func(op disk.Op) error {
		if armed && op.Kind == kind {
			armed = false
			return effect(op)
		}
		return s.beforeOp(op)
	}
}

func (s *system) part() *part { return s.c.roster.parts[s.k] }

func (s *system) tickOnly() bool {
	s.c.roster.turn = s.c.roster.turnOf(s.k) // what is touched goes at once
	s.c.beginTick()
	s.c.writeWindows()
	return true
}

// action is a step; it reports false when it makes no sense here.
type action struct {
	name string
	do   func(s *system) bool
}

func ack(pick func(s *system) int64) func(s *system) bool {
	return func(s *system) bool {
		if s.shards[s.k] == nil || setOf(s.shards[s.k].State) == allOffsets {
			return false
		}
		o := pick(s)
		s.shards[s.k].ack(o)
		if !s.stale {
			s.acked |= 1 << o
		}
		s.c.Dirty(s.k)
		return true
	}
}

func tickThatDies(n int) func(s *system) bool {
	return func(s *system) bool {
		if len(s.c.roster.dirty)+len(s.c.roster.touched) == 0 {
			return false
		}
		s.die(n)
		s.tickOnly()
		s.rig.disk.ProcessCrash()
		s.restart()
		return true
	}
}

func tickThatFails(kind disk.OpKind, effect func(s *system, op disk.Op) error) func(s *system) bool {
	return func(s *system) bool {
		if len(s.c.roster.dirty)+len(s.c.roster.touched) == 0 {
			return false
		}
		s.fail(kind, func(op disk.Op) error { return effect(s, op) })
		s.tickOnly()
		return true
	}
}

func writeout(s *system) bool {
	if p := s.part(); p == nil || !p.unsynced || p.distrust || p.stranded {
		return false
	}
	s.writeout(s.k)
	return true
}

func writeoutThatFails(visible bool) func(s *system) bool {
	return func(s *system) bool {
		s.fail(disk.OpSync, func(op disk.Op) error {
			s.rig.disk.SyncFails(op.Ino, visible)
			return errIO
		})
		return writeout(s)
	}
}

func level(s *system) bool {
	p := s.part()
	if p == nil || p.stranded || !p.levelable() {
		return false
	}
	s.c.beginTick()
	s.c.levelStep(p)
	return true
}

func levelThatDies(n int) func(s *system) bool {
	return func(s *system) bool {
		s.die(n)
		if !level(s) {
			return false
		}
		s.rig.disk.ProcessCrash()
		s.restart()
		return true
	}
}

// powerLoss goes on with one of the images: the first, one in the middle, the last.
func powerLoss(which int) func(s *system) bool {
	return func(s *system) bool {
		var all []*disk.Disk
		for img := range s.rig.disk.Crashes(0) {
			all = append(all, img)
		}
		at := []int{0, len(all) / 2, len(all) - 1}
		if which > 0 && at[which] == at[which-1] {
			return false
		}
		s.rig.disk = all[at[which]]
		s.cached = 0 // its loss was judged on the image
		s.restart()
		s.durable = s.cached
		return true
	}
}

func (s *system) retire() {
	s.retired++
	require.NoError(s.t, s.operator().Rename("p0", fmt.Sprintf("old%d", s.retired)))
	s.incarnation++
	s.stale, s.gone = true, true
}

func closeAll(s *system) bool {
	unwritten := len(s.c.roster.dirty) > 0
	err := s.c.finish()
	if s.stale {
		if unwritten {
			require.ErrorIs(s.t, err, ErrStranded)
		}
	} else {
		require.NoError(s.t, err)
		// INV-10: both files exact and durable.
		want := s.shards[s.k].State
		s.durable = setOf(want)
		for img := range s.rig.disk.Crashes(0) {
			got := recoverAs(s.t, img, s.incarnation)
			require.Equal(s.t, setOf(want), setOf(got))
			if s.primed {
				root, err := disk.FS(img).OpenRoot("p0", false)
				require.NoError(s.t, err)
				v, _, err := readOffset(root)
				require.NoError(s.t, err)
				require.Equal(s.t, want.Committed, v)
			}
		}
		s.cached = setOf(want)
	}
	s.restart()
	return true
}

func recoverAs(t testing.TB, d *disk.Disk, identity uint64) State {
	root, err := disk.FS(d).OpenRoot("p0", false)
	require.NoError(t, err)
	st, _, err := Recover(root, identity, 3)
	require.NoError(t, err)
	return st
}

var actions = []action{
	{"ack lowest", ack(func(s *system) int64 { return s.shards[s.k].Committed + 1 })},
	{"ack highest", ack(func(s *system) int64 {
		o := int64(2)
		for setOf(s.shards[s.k].State)&(1<<o) != 0 {
			o--
		}
		return o
	})},
	{"tick", (*system).tickOnly},
	{"tick dies at 1", tickThatDies(1)},
	{"tick dies at 2", tickThatDies(2)},
	{"tick dies at 3", tickThatDies(3)},
	{"tick dies at 4", tickThatDies(4)},
	{"tick dies at 5", tickThatDies(5)},
	{"tick, sync fails", tickThatFails(disk.OpSync, func(s *system, op disk.Op) error {
		s.rig.disk.SyncFails(op.Ino, true)
		return errIO
	})},
	{"tick, dir sync fails", tickThatFails(disk.OpSyncDir, func(*system, disk.Op) error { return errIO })},
	{"tick, write torn", tickThatFails(disk.OpWrite, func(*system, disk.Op) error { return &disk.Short{N: 100, Err: errIO} })},
	{"tick, stat fails", tickThatFails(disk.OpStat, func(*system, disk.Op) error { return errIO })},
	{"writeout", writeout},
	{"writeout fails", writeoutThatFails(true)},
	{"writeout fails, pages lost", writeoutThatFails(false)},
	{"level", level},
	{"level dies at 2", levelThatDies(2)},
	{"level dies at 5", levelThatDies(5)},
	{"level dies at 6", levelThatDies(6)},
	{"process crash", func(s *system) bool { s.rig.disk.ProcessCrash(); s.restart(); return true }},
	{"power loss, first", powerLoss(0)},
	{"power loss, middle", powerLoss(1)},
	{"power loss, last", powerLoss(2)},
	{"forget", func(s *system) bool {
		delete(s.shards, s.k)
		s.c.Forget(s.k)
		s.makeShard()
		return true
	}},
	{"remove directory", func(s *system) bool {
		if s.stale {
			return false
		}
		s.retire()
		require.NoError(s.t, s.operator().Sync())
		return true
	}},
	{"replace directory", func(s *system) bool {
		if s.stale {
			return false
		}
		s.retire()
		require.NoError(s.t, s.operator().Mkdir("p0"))
		require.NoError(s.t, s.operator().Sync())
		s.gone = false
		return true
	}},
	{"close", closeAll},
}

// explorer walks all sequences of actions, breadth first, each distinct state once.
type explorer struct {
	t                         *testing.T
	seen                      map[uint64]bool
	states, sequences, images int
	byAction                  []int
}

// after runs a sequence on a fresh system. It reports false when the last step made no sense.
func (x *explorer) after(path []byte) (s *system, ok bool) {
	s = newSystem(&witness{T: x.t, path: path})
	for i, a := range path {
		s.check = i == len(path)-1
		if s.check {
			s.lookAtImages() // so that what a hook saw is not older than the step
		}
		ok = actions[a].do(s)
		s.rig.hook = s.beforeOp
	}
	if ok {
		s.lookAtImages()
	}
	return s, ok
}

// witness adds the sequence to a failure.
type witness struct {
	*testing.T
	path []byte
}

// Helper is on every path of every check, and slow.
func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) {
	w.T.Helper()
	w.T.Errorf("after %s:\n"+format, append([]any{describe(w.path)}, args...)...)
}

func describe(path []byte) string {
	names := make([]string, len(path))
	for i, a := range path {
		names[i] = actions[a].name
	}
	return strings.Join(names, "; ")
}

// fingerprint tells states apart by all that can matter later.
func (s *system) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.rig.disk.Hash(), s.rig.disk.DurableHash(), s.imageSum)
	fmt.Fprint(h, s.incarnation, s.acked, s.durable, s.cached, s.window, s.anchor, s.primed, s.stale, s.gone)
	if live := s.shards[s.k]; live != nil {
		fmt.Fprint(h, live.identity, setOf(live.State), live.Dir)
	}
	r := &s.c.roster
	fmt.Fprint(h, r.dirty, r.touched, len(r.suspect))
	if p := s.part(); p != nil {
		roles := p.roles
		roles.oldest, roles.leveledAt = 0, 0
		fmt.Fprintf(h, "%v %v %v %v %v %v", roles, p.dir, p.file, p.stranded, p.missed, p.handle != nil)
	}
	return h.Sum64()
}

// outcome is what a sequence led to.
type outcome struct {
	path        []byte
	ok          bool
	fingerprint uint64
	images      int
}

// roots are sequences to go on from: a bug of the prime or the flip shows only some steps after these.
var roots = []string{
	"",
	"ack lowest; tick; writeout; ack highest; tick",
	"ack lowest; tick; writeout; ack highest; tick; process crash",
	"ack lowest; tick; writeout; ack lowest; tick; writeout; level; ack highest",
}

func parse(text string) (path []byte) {
	for name := range strings.SplitSeq(text, "; ") {
		for a := range actions {
			if actions[a].name == name {
				path = append(path, byte(a))
			}
		}
	}
	return path
}

func (x *explorer) run(root []byte, depth int) {
	level := [][]byte{root}
	for range depth {
		var longer []outcome
		for _, path := range level {
			for a := range actions {
				longer = append(longer, outcome{path: append(append([]byte(nil), path...), byte(a))})
			}
		}
		x.try(longer)
		level = level[:0:0]
		for _, o := range longer {
			x.images += o.images
			if !o.ok {
				continue
			}
			x.sequences++
			x.byAction[o.path[len(o.path)-1]]++
			if !x.seen[o.fingerprint] {
				x.seen[o.fingerprint] = true
				level = append(level, o.path)
			}
		}
		x.states += len(level)
		if x.t.Failed() {
			return
		}
	}
}

// try runs the sequences on all cores.
func (x *explorer) try(sequences []outcome) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := next.Add(1) - 1; i < int64(len(sequences)) && !x.t.Failed(); i = next.Add(1) - 1 {
				o := &sequences[i]
				s, ok := x.after(o.path)
				if o.ok, o.images = ok, s.images; ok {
					o.fingerprint = s.fingerprint()
				}
			}
		}()
	}
	group.Wait()
}

// INV-08 (what a window write put into the page cache), INV-10, INV-11, INV-12, INV-25, COM-14..COM-25,
// COM-31, COM-37..COM-45: every sequence of acks, ticks, writeouts, levels, crashes, losses of power, forgets,
// exchanges of the directory and closes up to a length, with every admissible crash image before each
// operation that changes the disk and after each step.
func TestEverySequence(t *testing.T) {
	depth := 4
	if os.Getenv("NARAD_LONG") == "1" {
		depth = 6
	}
	x := &explorer{t: t, seen: map[uint64]bool{}, byAction: make([]int, len(actions))}
	start := time.Now()
	for _, root := range roots {
		x.run(parse(root), depth)
	}
	t.Logf("%d steps from %d roots: %d sequences, %d distinct states, %d crash images in %v", depth, len(roots), x.sequences, x.states, x.images, time.Since(start).Round(time.Millisecond))
	for a, n := range x.byAction {
		require.Positive(t, n, "%s never made sense", actions[a].name)
	}
	require.Greater(t, x.images, x.sequences)
	require.False(t, t.Failed())
}
