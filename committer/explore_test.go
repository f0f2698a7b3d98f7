package committer

import (
	"fmt"
	"testing"

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
	lostPages   bool // a sync failed since the power went last: pages may be clean and not on the disk

	changes  int    // of the disk
	lookedAt look   // when the images were enumerated last
	views    []view // what they show of the partition
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
	if op.Kind == disk.OpWrite && op.Path == "p0/consumer.ahead" && s.primed && int64(s.anchor) == op.Off/slotSize {
		s.failf("COM-14: write to the anchor")
	}
	if op.Kind == disk.OpMkdir {
		s.failf("COM-44: the committer made a directory")
	}
	if op.Kind.Changes() {
		if s.check {
			s.lookAtImages()
		}
		s.changes++
	}
	return nil
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
	dir.Close()
	got := setOf(st)
	if !got.in(s.acked) {
		s.failf("recovered %03b, acked %03b", got, s.acked)
	}
	if !s.cached.in(got) {
		s.failf("INV-08: recovered %03b, in the page cache %03b", got, s.cached)
	}
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

func (s *system) failf(format string, args ...any) {
	s.t.Errorf(format, args...)
	s.t.FailNow()
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
	s.c.flushDevices()
	return true
}

func writeoutThatFails(visible bool) func(s *system) bool {
	return func(s *system) bool {
		s.fail(disk.OpSync, func(op disk.Op) error {
			s.rig.disk.SyncFails(op.Ino, visible)
			s.lostPages = true
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
		s.lostPages = true
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
