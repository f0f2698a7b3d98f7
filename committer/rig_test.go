package committer

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// still is a world with one task whose clock moves when it is told to.
type still struct{ now env.Instant }

func (s *still) Now() env.Instant                            { return s.now }
func (s *still) Wall() env.Wall                              { return env.Wall(s.now) }
func (s *still) Go(string, func())                           { panic("one task only") }
func (s *still) Park(*env.Waiter, env.Instant) bool          { panic("one task only") }
func (s *still) Unpark(w *env.Waiter)                        { w.Sim.Permit = true }
func (s *still) Point(string)                                {}
func (s *still) Seed(string) [32]byte                        { return [32]byte{} }
func (s *still) Send(string, []byte)                         {}
func (s *still) Receive(env.Instant) (_ env.Message, _ bool) { return }

// shard is the live shard of a partition, as the owner of lease tables would keep it.
type shard struct {
	State
	identity uint64
}

// ack settles one offset.
func (s *shard) ack(offset int64) {
	if offset <= s.Committed {
		return
	}
	at, found := slices.BinarySearch(s.Ahead, offset)
	if found {
		return
	}
	s.Ahead = slices.Insert(s.Ahead, at, offset)
	for len(s.Ahead) > 0 && s.Ahead[0] == s.Committed+1 {
		s.Committed++
		s.Ahead = s.Ahead[1:]
	}
}

// rig is a committer without its task, on a simulated disk with partitions t/0, t/1 … in directories p0, p1 …
type rig struct {
	t      testing.TB
	still  *still
	disk   *disk.Disk
	fs     vfs.FS
	root   vfs.Dir
	c      *Committer
	shards map[Key]*shard
	events []Event
	ops    []disk.Op
	hook   func(op disk.Op) error
	delay  map[disk.OpKind]time.Duration // how long operations take
}

func part0(i int) Key { return Key{Topic: "t", Partition: int32(i)} }

func newRig(t testing.TB, partitions int, change func(o *Options)) *rig {
	r := &rig{t: t, still: &still{now: env.Instant(time.Hour)}, disk: disk.New(disk.Adversarial), shards: map[Key]*shard{}}
	r.open()
	for i := range partitions {
		require.NoError(t, r.root.Mkdir(fmt.Sprintf("p%d", i)))
	}
	require.NoError(t, r.root.Sync())
	r.start(change)
	for i := range partitions {
		r.seed(part0(i))
	}
	return r
}

func (r *rig) open() {
	r.fs = disk.FS(r.disk, r.onOp)
	root, err := r.fs.OpenRoot("/", false)
	require.NoError(r.t, err)
	r.root = root
}

func (r *rig) onOp(op disk.Op) error {
	r.still.now = r.still.now.Add(r.delay[op.Kind])
	if r.hook != nil {
		if err := r.hook(op); err != nil {
			return err
		}
	}
	r.ops = append(r.ops, op)
	return nil
}

// start makes a fresh committer on the disk.
func (r *rig) start(change func(o *Options)) {
	o := Options{
		Interval: time.Second, Root: r.root, MaxOpen: 8,
		Path: func(k Key) string { return fmt.Sprintf("p%d", k.Partition) },
		State: func(k Key, dst []int64) (State, uint64, bool) {
			s := r.shards[k]
			if s == nil {
				return State{}, 1, false
			}
			st := s.State
			st.Ahead = append(dst, st.Ahead...)
			return st, s.identity, true
		},
		Event: func(v Event) { r.events = append(r.events, v) },
	}
	if change != nil {
		change(&o)
	}
	c, err := newCommitter(env.Simulated(r.still, nil), o)
	require.NoError(r.t, err)
	r.c = c
}

// seed makes the shard of k anew from its directory.
func (r *rig) seed(k Key) *shard {
	dir, err := r.root.OpenDir(r.path(k))
	require.NoError(r.t, err)
	defer dir.Close()
	s, _, err := Recover(dir, 1, 1<<40)
	require.NoError(r.t, err)
	r.shards[k] = &shard{State: s, identity: 1}
	return r.shards[k]
}

func (r *rig) path(k Key) string { return r.c.o.Path(k) }

// crash ends the process; the page cache stays.
func (r *rig) crash() {
	r.disk.ProcessCrash()
	clear(r.shards)
	r.open()
	r.start(nil)
}

func (r *rig) ack(k Key, offsets ...int64) {
	for _, o := range offsets {
		r.shards[k].ack(o)
	}
	r.c.Dirty(k)
}

// tick runs the tick that begins T after the last one began.
func (r *rig) tick() TickDone {
	start := r.still.now
	r.c.tick()
	r.still.now = max(r.still.now, start.Add(r.c.roster.tick))
	done, ok := last[TickDone](r)
	require.True(r.t, ok)
	return done
}

func (r *rig) ticks(n int) {
	for range n {
		r.tick()
	}
}

// writeout writes out one partition, whatever its turn.
func (r *rig) writeout(k Key) {
	r.c.beginTick()
	r.c.writeoutStep(r.c.roster.parts[k])
}

// flush ticks until everything written is written out.
func (r *rig) flush() {
	for range r.c.roster.turns + 1 {
		r.tick()
	}
}

// recovered is what recovery would find now.
func (r *rig) recovered(k Key) State { return recoveredOn(r.t, r.disk, r.path(k)) }

func recoveredOn(t testing.TB, d *disk.Disk, path string) State {
	root, err := disk.FS(d).OpenRoot(path, false)
	require.NoError(t, err)
	defer root.Close()
	s, _, err := Recover(root, 1, 1<<40)
	require.NoError(t, err)
	s.Dir = vfs.ID{}
	return s
}

// images calls check with what recovery finds in k after every power loss that could be now.
func (r *rig) images(k Key, check func(s State)) (count int) {
	for img := range r.disk.Crashes(0) {
		check(recoveredOn(r.t, img, r.path(k)))
		count++
	}
	return count
}

// durable requires that recovery finds s after every power loss that could be now.
func (r *rig) durable(k Key, committed int64, ahead ...int64) {
	r.t.Helper()
	r.images(k, func(s State) {
		require.Equal(r.t, committed, s.Committed)
		require.Equal(r.t, ahead, s.Ahead)
	})
}

// failOn makes the next operations of a kind on a path fail, n of them; n < 0: all.
func (r *rig) failOn(kind disk.OpKind, path string, n int, err error) {
	r.hook = func(op disk.Op) error {
		if n != 0 && op.Kind == kind && op.Path == path {
			n--
			return err
		}
		return nil
	}
}

var errIO = syscall.EIO

// all returns the events of a type.
func all[T Event](r *rig) (out []T) {
	for _, v := range r.events {
		if e, ok := v.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

func last[T Event](r *rig) (e T, ok bool) {
	if es := all[T](r); len(es) > 0 {
		return es[len(es)-1], true
	}
	return e, false
}

// log returns the operations since the last call that change something, as text.
func (r *rig) log() (out []string) {
	for _, op := range r.ops {
		if !op.Kind.Changes() {
			continue
		}
		text := fmt.Sprintf("%s %s", op.Kind, op.Path)
		if op.Kind == disk.OpWrite {
			text += fmt.Sprintf(" %d+%d", op.Off, op.Len)
		}
		out = append(out, text)
	}
	r.ops = nil
	return out
}
