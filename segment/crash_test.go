package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// state is what a power loss at some instant finds: the disk, and what the log owes.
type state struct {
	at        string
	disk      *disk.Disk
	confirmed []Record   // every offset that was ever below a watermark, in order
	removed   int        // offsets that retention has removed
	removable int        // offsets that it was told to remove
	maybe     [][]Record // what may follow: commits whose outcome is not a confirmation
}

// story drives a log on a simulated disk and keeps the state before each of its calls.
type story struct {
	t      testing.TB
	opt    Options
	disk   *disk.Disk
	dir    vfs.Dir
	log    *Log
	state  state
	states []state
	keep   bool
	fault  disk.Hook
	next   int // number of the next record
	clock  clock
}

func newStory(t testing.TB, d *disk.Disk, o Options) *story {
	s := &story{t: t, opt: o, disk: d}
	var err error
	s.dir, err = disk.FS(d, s.hook).OpenRoot("p", true)
	require.NoError(t, err)
	return s
}

// unsynced says which of the files that are never synced for their own sake, as they prove nothing when they are lost, are left unsynced
// in a test, too. Otherwise each write of them is durable at once. Unsynced they multiply the images of everything else.
type unsynced int

const (
	hintsUnsynced unsynced = iota // indexes and bounds
	indexUnsynced
	noneUnsynced
)

func (u unsynced) String() string {
	return [...]string{"hints unsynced", "indexes unsynced", "hints synced"}[u]
}

func (u unsynced) settles(name string) bool {
	return name == BoundsFile && u > hintsUnsynced || strings.HasSuffix(name, indexSuffix) && u > indexUnsynced
}

// settled is a directory in which every write of some files is durable at once.
type settled struct {
	vfs.Dir
	but unsynced
}

func (d settled) Create(name string) (vfs.File, error) { return d.settle(name, d.Dir.Create) }
func (d settled) Open(name string) (vfs.File, error)   { return d.settle(name, d.Dir.Open) }

func (d settled) settle(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err == nil && d.but.settles(name) {
		f = settledFile{f}
	}
	return f, err
}

type settledFile struct{ vfs.File }

func (f settledFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if err == nil {
		err = f.File.Sync()
	}
	return n, err
}

func (s *story) hook(op disk.Op) error {
	if s.keep && op.Kind.Changes() {
		s.mark(op.String())
	}
	if s.fault != nil {
		return s.fault(op)
	}
	return nil
}

func (s *story) mark(at string) {
	st := s.state
	st.at, st.disk = at, s.disk.Clone()
	st.confirmed, st.maybe = slices.Clone(st.confirmed), slices.Clone(st.maybe)
	s.states = append(s.states, st)
}

func (s *story) open() error {
	l, err := Open(env.Simulated(&s.clock, nil), s.dir, s.opt)
	if err != nil {
		return err
	}
	s.log = l
	got, err := contents(l)
	if err != nil && s.fault != nil {
		got, err = contents(l) // a read that failed may be tried again
	}
	require.NoError(s.t, err, "at %s", s.state.at)
	s.state.admit(s.t, int(l.Oldest()), got)
	s.state.confirmed, s.state.maybe = append(s.state.confirmed[:l.Oldest():l.Oldest()], got...), nil
	return nil
}

// contents reads a log that has no damage.
func contents(l *Log) (all []Record, err error) {
	for off := l.Oldest(); off < l.HighWatermark(); off++ {
		r, err := l.Read(off)
		if err != nil {
			return nil, err
		}
		r.CommittedMs = 0
		all = append(all, r)
	}
	return all, nil
}

// admit checks what a log that was opened in some state holds, from its oldest offset on.
func (s *state) admit(t testing.TB, oldest int, got []Record) {
	if oldest < s.removed || oldest > s.removable {
		t.Fatalf("at %s: oldest offset %d, expected from %d to %d", s.at, oldest, s.removed, s.removable)
	}
	if hw := oldest + len(got); hw < len(s.confirmed) {
		t.Fatalf("at %s: watermark %d, below the %d it was", s.at, hw, len(s.confirmed))
	}
	for i, r := range s.confirmed[oldest:] {
		if !same(r, got[i]) {
			t.Fatalf("at %s: offset %d holds %q, was %q", s.at, oldest+i, got[i].Payload, r.Payload)
		}
	}
	tail := got[len(s.confirmed)-oldest:]
	if len(tail) == 0 {
		return
	}
	for _, m := range s.maybe {
		if len(tail) <= len(m) && slices.EqualFunc(tail, m[:len(tail)], same) {
			return
		}
	}
	t.Fatalf("at %s: %d records that nobody committed there, first %q", s.at, len(tail), tail[0].Payload)
}

func same(a, b Record) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Payload, b.Payload) }

// commit commits n records; when the log is poisoned by it, it reopens.
func (s *story) commit(n, size int) error {
	r := recs(s.next, n, size)
	s.next += n
	s.state.maybe = append(s.state.maybe, r)
	s.clock.wall = env.Wall(len(s.state.confirmed)+n-1) * env.Wall(time.Millisecond)
	base, err := s.log.Commit(r)
	if err != nil {
		require.Equal(s.t, int64(len(s.state.confirmed)), s.log.HighWatermark())
		if s.log.Err() == nil { // it was cut off, and nothing brings it back
			s.state.maybe = s.state.maybe[:len(s.state.maybe)-1]
		}
		return err
	}
	require.Equal(s.t, int64(len(s.state.confirmed)), base)
	s.state.confirmed, s.state.maybe = append(s.state.confirmed, r...), nil
	return nil
}

func (s *story) reopen() error {
	require.NoError(s.t, s.log.Close())
	return s.open()
}

// program runs steps like "1", "4" (commit so many small records), "big" (one record over several
// sectors), "many" (more than a frame) and "reopen".
func (s *story) program(steps ...string) {
	require.NoError(s.t, s.open())
	for _, step := range steps {
		s.mark("before " + step)
		require.NoError(s.t, s.step(step), step)
	}
	s.mark("the end")
}

func (s *story) step(step string) error {
	switch step {
	case "1":
		return s.commit(1, 20)
	case "4":
		return s.commit(4, 30)
	case "big":
		return s.commit(1, 700)
	case "many":
		return s.commit(5, 250)
	case "reopen":
		return s.reopen()
	case "retain":
		return s.retain(len(s.state.confirmed))
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(step, "below ")); err == nil {
		return s.retain(n)
	}
	panic(step)
}

// retain removes what holds only offsets below a bound: the commit time of a record is here its offset.
func (s *story) retain(below int) error {
	s.state.removable = max(s.state.removable, below)
	before := int(s.log.Oldest())
	_, err := s.log.Retain(int64(below))
	if oldest := int(s.log.Oldest()); oldest > max(before, below) {
		s.t.Fatalf("told to remove below %d, removed below %d", below, oldest)
	}
	if err == nil {
		s.state.removed = int(s.log.Oldest())
		if all := len(s.state.confirmed); below == all && s.state.removed != all {
			s.t.Fatalf("told to remove all %d, removed below %d", all, s.state.removed)
		}
	}
	return err
}

var crashOptions = Options{SegmentBytes: 600, FrameBytes: 500}

// tally counts the images of this package's tests.
var tally disk.Tally

func TestMain(m *testing.M) {
	code := m.Run()
	if tally.Images() > 0 {
		fmt.Println(&tally)
	}
	os.Exit(code)
}

// checker recovers crash images and checks what they hold.
type checker struct {
	t   testing.TB
	opt Options
	unsynced
	limit  int // of images per crash
	looked int // images
	*checked
}

// checked is what checkers that share it need not check again.
type checked struct {
	states    checks // where the power was lost
	images    checks // what that left
	recovered checks // what an open made of that
	opened    checks // what a loss of power left of that, which is opened only
}

// newChecker returns a checker of logs with crashOptions that looks at so many images of each crash, 0: all.
func newChecker(t testing.TB, limit int) *checker {
	return &checker{t: t, opt: crashOptions, limit: limit, checked: new(checked)}
}

// checks tells what was checked, and the depth of the crashes in recoveries. A check is the same for the same disk, memory and debts, so
// one that went at least as deep stands for all others. The zero value is ready.
type checks struct {
	mu    sync.Mutex
	depth map[place]int
}

// place is a hash of a disk, one of what a log in memory knows, 0 when there is none, and one of what it owes. What happens next rests
// on nothing else.
type place struct{ disk, memory, debts uint64 }

// first reports whether the place was not seen with that depth or a larger one, and notes it.
func (c *checks) first(at place, depth int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.depth[at] > depth {
		return false
	}
	if c.depth == nil {
		c.depth = map[place]int{}
	}
	c.depth[at] = depth + 1
	return true
}

func (c *checker) story(d *disk.Disk) *story {
	s := newStory(c.t, d, c.opt)
	s.dir = settled{s.dir, c.unsynced}
	return s
}

// crash checks every image that a power loss may leave, and the one that the death of the process leaves.
func (c *checker) crash(s state, depth int) {
	debts := s.obligation()
	if !c.states.first(place{disk: s.disk.StateHash(), debts: debts}, depth) {
		return
	}
	for img := range tally.Crashes(s.disk, c.limit) {
		c.image(s, img, img.Hash(), debts, depth) // nothing of it is unsynced
	}
	dead := s.disk.Clone()
	dead.ProcessCrash()
	s.at += ", process died"
	tally.Image()
	c.image(s, dead, dead.StateHash(), debts, depth)
}

// obligation is a hash of all that decides what a log may hold that is opened in this state.
func (s *state) obligation() uint64 {
	var h sum
	h.add(len(s.confirmed), s.removed, s.removable, len(s.maybe))
	h.records(s.confirmed[s.removed:])
	for _, m := range s.maybe {
		h.records(m)
	}
	return h.hash()
}

// sum collects what is hashed.
type sum struct{ b []byte }

func (h *sum) add(values ...int) {
	for _, v := range values {
		h.b = binary.AppendVarint(h.b, int64(v))
	}
}

func (h *sum) bools(values ...bool) {
	for _, v := range values {
		if v {
			h.add(1)
		} else {
			h.add(0)
		}
	}
}

func (h *sum) records(records []Record) {
	h.add(len(records))
	for _, r := range records {
		h.add(len(r.Key), len(r.Payload))
		h.b = append(append(h.b, r.Key...), r.Payload...)
	}
}

var seed = maphash.MakeSeed()

func (h *sum) hash() uint64 { return maphash.Bytes(seed, h.b) }

func (c *checker) image(s state, img *disk.Disk, hash, debts uint64, depth int) {
	c.looked++
	if !c.checked.images.first(place{disk: hash, debts: debts}, depth) {
		return
	}
	tally.Recovered()
	if depth > 0 { // crashes in the recovery of this image
		again := img.Clone()
		st := c.story(again)
		st.state, st.keep = s, true
		st.state.at += ", in recovery"
		require.NoError(c.t, st.open())
		for _, in := range st.states {
			in.at = s.at + ", in recovery at " + in.at
			c.crash(in, depth-1)
		}
	}
	st := c.story(img)
	st.state = s
	require.NoError(c.t, st.open(), "at %s", s.at)
	if !c.recovered.first(st.place(), 0) {
		require.NoError(c.t, st.log.Close())
		return
	}
	st.state.at += ", recovered"
	c.durable(st) // everything below the watermark is. LOG-24
	// Recovering once more changes nothing.
	first := dump(c.t, st.dir)
	require.NoError(c.t, st.reopen())
	if second := dump(c.t, st.dir); first != second {
		require.Equal(c.t, first, second, "at %s", s.at)
	}
	// The log goes on where it was, and what it confirms now survives too.
	st.next = 1000
	require.NoError(c.t, st.commit(2, 20), "at %s", s.at)
	st.state.at += ", committed again"
	c.durable(st)
	require.NoError(c.t, st.log.Close())
}

// durable checks that no power loss takes anything from what an open log holds.
func (c *checker) durable(st *story) {
	debts := st.state.obligation()
	for img := range tally.Crashes(st.disk, c.limit) {
		c.looked++
		if !c.opened.first(place{disk: img.Hash(), debts: debts}, 0) {
			continue
		}
		tally.Recovered()
		after := c.story(img)
		after.state = st.state
		require.NoError(c.t, after.open())
		require.NoError(c.t, after.log.Close())
	}
}

func dump(t testing.TB, dir vfs.Dir) (s string) {
	entries, err := dir.List()
	require.NoError(t, err)
	for _, e := range entries {
		b, err := vfs.ReadFile(dir, e.Name, 1<<20)
		require.NoError(t, err)
		s += fmt.Sprintf("%s %x\n", e.Name, b)
	}
	return s
}

var programs = [][]string{
	{"1", "1", "4"},
	{"4", "reopen", "1", "reopen", "1"},
	{"big", "1", "big"},
	{"many", "1"},
	{"big", "reopen", "4", "many", "reopen", "1"},
	{"big", "1", "retain", "1"},
	{"big", "big", "below 1", "reopen", "retain"},
	{"big", "big", "1", "below 2", "big", "retain", "reopen", "1"},
}

// long reports whether deep runs are asked for.
func long() bool { return os.Getenv("NARAD_LONG") == "1" }

// After every call of small programs, every image a power loss may leave recovers: nothing that was visible
// is gone or changed, offsets are dense, and this holds again for a second crash at every call of the recovery.
// The bounds that a crash leaves never refuse the log.
func TestEveryCrashImageRecovers(t *testing.T) { // LOG-02, LOG-07, LOG-08, LOG-09, LOG-24, RET-04, INV-04
	for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		for _, program := range programs {
			t.Run(fmt.Sprint(p, program), func(t *testing.T) {
				t.Parallel()
				everyImage(t, p, program, hintsUnsynced, 0)
			})
			t.Run(fmt.Sprint(p, program, "bounds synced"), func(t *testing.T) {
				t.Parallel()
				everyImage(t, p, program, indexUnsynced, 2)
			})
		}
	}
}

func everyImage(t *testing.T, p disk.Personality, program []string, u unsynced, depth int) {
	if long() {
		depth++
	}
	c := newChecker(t, 0)
	c.unsynced = u
	if u == hintsUnsynced && !long() {
		c.limit = 80
	}
	s := c.story(disk.New(p))
	s.keep = true
	s.program(program...)
	for _, st := range s.states {
		c.crash(st, depth)
	}
	t.Logf("%d states, %d images", len(s.states), c.looked)
	require.Greater(t, c.looked, len(s.states))
}

// LOG-24, INV-04; G10: crashes in the recovery and in the recovery from those, with what they leave of unsynced bounds, all of them and not
// drawn: after every call of the last step of every short program, and of each recovery.
func TestNestedCrashesWithUnsyncedBounds(t *testing.T) {
	steps := []string{"1", "4", "big", "below 1", "retain", "reopen"}
	length := 2
	if long() {
		length = 3
	}
	for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		for _, first := range steps {
			t.Run(fmt.Sprint(p, " ", first), func(t *testing.T) {
				t.Parallel()
				c := newChecker(t, 0)
				extend([]string{first}, steps, length, func(program []string) { c.lastStep(p, program, 2) })
				t.Logf("%d images", c.looked)
			})
		}
	}
}

// lastStep checks crashes in the last step of a program.
func (c *checker) lastStep(p disk.Personality, program []string, depth int) {
	s := c.story(disk.New(p))
	require.NoError(c.t, s.open())
	for i, step := range program {
		if s.keep = i == len(program)-1; s.keep {
			s.mark(fmt.Sprint("before ", step, " of ", program))
		}
		require.NoError(c.t, s.step(step), "%v", program)
	}
	s.mark(fmt.Sprint("after ", program))
	for _, st := range s.states {
		c.crash(st, depth)
	}
	require.NoError(c.t, s.log.Close())
}

// extend visits a program and every one of up to length steps that begins with it.
func extend(program, steps []string, length int, visit func([]string)) {
	visit(program)
	if len(program) == length {
		return
	}
	for _, step := range steps {
		extend(append(slices.Clone(program), step), steps, length, visit)
	}
}

// faultKinds are the ways in which a call may fail.
var faultKinds = []string{"not done", "done", "half", "lost, shown", "lost, hidden"}

// breakAt makes one call fail; hit tells that it was one that can fail so.
func breakAt(d *disk.Disk, n int, kind string, hit *bool) disk.Hook {
	calls := 0
	return func(op disk.Op) error {
		if op.Kind == disk.OpOpenRoot {
			return nil
		}
		calls++
		if calls != n {
			return nil
		}
		*hit = true
		switch kind {
		case "not done":
			return errDisk
		case "half", "done":
			return applied(d, op, kind == "half", hit)
		}
		if op.Kind != disk.OpSync {
			*hit = false
			return nil
		}
		d.SyncFails(op.Ino, kind == "lost, shown")
		return errDisk
	}
}

// applied carries a call out, or half of it, and fails all the same.
func applied(d *disk.Disk, op disk.Op, half bool, hit *bool) error {
	if half != (op.Kind == disk.OpWrite && half) {
		*hit = false
		return nil
	}
	switch op.Kind {
	case disk.OpWrite:
		n := int(op.Len)
		if half {
			n /= 2
		}
		return &disk.Short{N: n, Err: errDisk}
	case disk.OpTruncate:
		d.Truncate(op.Ino, op.Len)
	case disk.OpSync:
		d.Sync(op.Ino)
	case disk.OpSyncDir:
		d.SyncDir(op.Ino)
	case disk.OpCreate:
		d.Create(op.Ino, op.Path)
	case disk.OpRename:
		d.Rename(op.Ino, op.Path, op.Target)
	case disk.OpRemove:
		d.Remove(op.Ino, op.Path)
	default:
		*hit = false
		return nil
	}
	return errDisk
}

// Each call of a story fails once, in each way it can; the story goes on, reopening when the log is poisoned.
// Nothing confirmed is ever lost, by a power loss after any later call either.
func TestFailEveryCallOnce(t *testing.T) { // LOG-06, LOG-24, LOG-25, INV-04
	for _, kind := range faultKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			hits, images := 0, 0
			for n := 1; !t.Failed(); n++ {
				d := disk.New(disk.Adversarial)
				s := newStory(t, d, crashOptions)
				var hit bool
				calls := 0
				broken := breakAt(d, n, kind, &hit)
				s.fault = func(op disk.Op) error {
					calls++
					err := broken(op)
					s.keep = hit // what comes before is what the test above looks at
					return err
				}
				failures := s.survive("4", "big", "reopen", "1", "below 5", "many", "reopen", "retain", "1", "big", "1")
				s.mark("the end")
				require.LessOrEqual(t, failures, 1)
				if hit {
					hits++
				}
				limit := 3
				if long() {
					limit = 6
				}
				c := newChecker(t, limit)
				for _, st := range s.states {
					st.at = fmt.Sprintf("%s, after call %d failed", st.at, n)
					c.crash(st, 0)
				}
				images += c.looked
				require.NoError(t, s.log.Close())
				if n > calls {
					break
				}
			}
			t.Logf("%d calls failed, %d images", hits, images)
			require.Greater(t, hits, 8)
		})
	}
}

// survive runs a program in which calls fail: a step that fails is tried again, after a restart when the log is
// poisoned. It returns how many steps failed.
func (s *story) survive(steps ...string) (failures int) {
	must := func(do func() error) {
		for try := 0; ; try++ {
			err := do()
			if err == nil {
				return
			}
			failures++
			require.Less(s.t, try, 3, "%v", err)
		}
	}
	must(s.open)
	for _, step := range steps {
		must(func() error {
			if step == "reopen" {
				s.log.Close()
				return s.open()
			}
			err := s.step(step)
			if err != nil && s.log.Err() != nil {
				require.NoError(s.t, s.log.Close())
				must(s.open)
			}
			return err
		})
	}
	got, err := contents(s.log)
	if err != nil {
		failures++
		got, err = contents(s.log)
	}
	require.NoError(s.t, err)
	s.state.admit(s.t, int(s.log.Oldest()), got)
	return failures
}
