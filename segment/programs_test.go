package segment

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
)

// operations are what programs are made of: all that may happen to the files of a log. An append and its sync are one operation, as they
// are one call; a power loss may come between them. Where the log durably ends is written into its bounds by each of them.
var operations = []string{
	"1", "big", "many", // append and sync: within a sector, over a whole segment, and several frames
	"roll",
	"compact", "retain", // remove all sealed segments, and all segments
	"full", "unread", // a commit fails and is cut off: no space in its third frame; it does not read back
	"shown", "hidden", // a sync fails and its pages are lost, readable until evicted or not; close, open
	"reopen",
}

// namesLost is an operation that is only in short programs, since it multiplies the places of all others: the sync of the name of a new
// segment fails, and no later sync makes it durable; close, open.
const namesLost = "names lost"

// later is an operation of programs without a share of files: it is time to tell of the next commit in the bounds.
const later = "later"

// operation carries one out. Records are told apart by their offset and by whether their commit was meant to succeed, and by nothing
// else that happened, so that programs which come to the same logs come to the same files.
func (s *story) operation(op string) {
	next := len(s.state.confirmed)
	s.next = next
	switch op {
	case "roll":
		if s.segments() > 0 {
			require.NoError(s.t, s.log.roll(math.MaxInt64))
		}
	case "compact":
		if n := s.segments(); n > 0 {
			require.NoError(s.t, s.retain(int(s.log.segs[n-1].base)))
		}
	case "full":
		s.failing(3, 600, third(disk.OpWrite), func(op disk.Op) error { return &disk.Short{N: int(op.Len) / 2, Err: syscall.ENOSPC} })
	case "unread":
		synced := false
		s.failing(1, 30, func(kind disk.OpKind) bool {
			synced = synced || kind == disk.OpSync
			return synced && kind == disk.OpRead
		}, func(disk.Op) error { return errDisk })
	case "shown", "hidden":
		s.failing(1, 600, func(kind disk.OpKind) bool { return kind == disk.OpSync }, func(o disk.Op) error {
			s.disk.SyncFails(o.Ino, op == "shown")
			return errDisk
		})
		require.Error(s.t, s.log.Err())
		require.NoError(s.t, s.reopen())
	case namesLost:
		s.loseName()
	case later:
		s.clock.now = s.clock.now.Add(tellEvery)
	default:
		require.NoError(s.t, s.step(op), op)
	}
}

func (s *story) segments() int { return len(s.log.segs) }

// failing makes a commit of n records fail, at the first call to a segment that is the one.
func (s *story) failing(n, size int, one func(disk.OpKind) bool, with func(disk.Op) error) {
	s.next += 500
	failed := false
	s.fault = func(op disk.Op) error {
		if failed || !strings.Contains(op.Path, fileSuffix) || !one(op.Kind) { // a new one may be open by its temporary name
			return nil
		}
		failed = true
		return with(op)
	}
	err := s.commit(n, size)
	s.fault = nil
	require.True(s.t, failed)
	require.Error(s.t, err)
}

// loseName makes the next segment begin with a name that is not durable, unless the newest one is empty.
func (s *story) loseName() {
	n := s.segments()
	if n > 0 && s.log.segs[n-1].size == 0 {
		return
	}
	s.fault = func(op disk.Op) error {
		if op.Kind != disk.OpSyncDir {
			return nil
		}
		s.disk.SyncDirFails(op.Ino)
		return errDisk
	}
	if n == 0 {
		s.next += 500
		require.Error(s.t, s.commit(1, 20))
	} else {
		require.Error(s.t, s.log.roll(math.MaxInt64))
	}
	s.fault = nil
	require.Error(s.t, s.log.Err())
	require.NoError(s.t, s.reopen())
}

// third is true of the third call of that kind.
func third(kind disk.OpKind) func(disk.OpKind) bool {
	n := 0
	return func(k disk.OpKind) bool {
		if k == kind {
			n++
		}
		return k == kind && n == 3
	}
}

// memory is a hash of all that an open log that nobody uses knows, but for decoded blocks: those are of segments that programs read
// only when they open a log, and then all of them.
func (l *Log) memory() uint64 {
	var h sum
	k := &l.bounds
	h.add(int(l.hw.Load()), int(l.oldest.Load()), int(l.floor), len(l.doomed))
	h.bools(l.poison != nil, k.there, k.named, k.blank, k.late, k.now.HasCRC)
	if k.share != nil {
		h.bools(k.held != nil, k.env.Now().Sub(k.told) >= tellEvery)
	}
	h.add(k.next, int(k.kept), int(k.now.Oldest), int(k.now.End), int(k.now.CRC))
	for _, s := range l.segs {
		h.add(int(s.base), int(s.end), int(s.size))
		if h.bools(s.usage != nil); s.usage != nil {
			s.usage.addTo(&h)
		}
	}
	for _, s := range l.hot {
		h.add(int(s.base))
	}
	return h.hash()
}

func (u *usage) addTo(h *sum) {
	h.bools(u.file != nil, u.indexed, u.hinted, u.scanOnly, u.named, u.refused != nil)
	h.add(int(u.first), int(u.last), u.users, int(u.lastAt), len(u.index), len(u.lost))
	for _, e := range u.index {
		h.add(int(e.Offset), int(e.At))
	}
	for _, d := range u.lost {
		h.add(int(d.at), int(d.from), int(d.to))
	}
}

// reached is where programs lead, with one that does.
type reached struct {
	place
	program []string
}

// explorer walks through all programs of a personality up to a length. It looks at crashes in the last operation of each: what comes
// before it is another program. Two programs that lead to the same place go on in the same way, so only one of them is made longer.
//
// That is sound because a log is a deterministic function of its disk and its memory, and what it owes is compared with it as well: an
// operation from one place makes the same calls, passes the same states of the disk and ends in the same place, whichever way led
// there. An operation that does nothing leads to where it began and needs no rule of its own. A place is made longer at the length of
// the shortest program that leads to it, so no program is longer than it was counted for. TestReductionsLoseNothing compares.
type explorer struct {
	p disk.Personality
	unsynced
	files      *FileShare
	operations []string
	every      func(t *testing.T, worker int, s state) // called for each state of the disk that a last operation passes
	all        bool                                    // makes every program longer

	known            map[place]bool // places
	examined, passed atomic.Int64   // operations, and states in them
}

func (x *explorer) story(t testing.TB) *story {
	o := crashOptions
	o.Files = x.files
	s := newStory(t, disk.New(x.p), o)
	s.dir = settled{s.dir, x.unsynced}
	require.NoError(t, s.open())
	return s
}

func (s *story) place() place {
	return place{s.disk.StateHash(), s.log.memory(), s.state.obligation()}
}

// start returns where the empty program leads.
func (x *explorer) start(t testing.TB) []reached {
	s := x.story(t)
	defer s.log.Close()
	at := reached{place: s.place()}
	x.known = map[place]bool{at.place: true}
	return []reached{at}
}

// longer adds each of the operations to each program, and returns the places that are new.
func (x *explorer) longer(t *testing.T, from []reached, workers int) (to []reached) {
	ends := make([]reached, len(from)*len(x.operations)) // in an order that does not depend on who is faster
	var next atomic.Int64
	t.Run(fmt.Sprint("length ", len(from[0].program)+1), func(t *testing.T) {
		for worker := range workers {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for {
					i := int(next.Add(1)) - 1
					if i >= len(ends) {
						return
					}
					ends[i] = x.operation(t, worker, from[i/len(x.operations)], x.operations[i%len(x.operations)])
				}
			})
		}
	})
	for _, at := range ends {
		if x.all || !x.known[at.place] {
			x.known[at.place] = true
			to = append(to, at)
		}
	}
	return to
}

// operation carries out one more operation after a program, with all that is to be done about the states in it, and returns where it
// leads.
func (x *explorer) operation(t *testing.T, worker int, from reached, op string) reached {
	s := x.story(t)
	for _, earlier := range from.program {
		s.operation(earlier)
	}
	require.Equal(t, from.place, s.place(), "%v led to another place before", from.program)
	to := reached{program: append(slices.Clone(from.program), op)}
	s.keep = true
	s.mark("before " + op)
	s.operation(op)
	s.mark("the end")
	s.keep = false
	to.place = s.place()
	x.examined.Add(1)
	x.passed.Add(int64(len(s.states)))
	for _, st := range s.states {
		st.at += fmt.Sprint(" of ", to.program)
		x.every(t, worker, st)
	}
	got, err := contents(s.log) // last, because it changes what the log remembers
	require.NoError(t, err, "%v", to.program)
	s.state.admit(t, int(s.log.Oldest()), got)
	require.NoError(t, s.log.Close())
	return to
}

// LOG-02, LOG-06, LOG-07, LOG-08, LOG-09, LOG-24, LOG-25, RET-04, INV-04: after every call of every program of up to so many
// operations, every image that a power loss may leave recovers to a log that holds what it owes, recovers to the same once more, and goes
// on; and so it does when the power is lost once more after every call of the recovery, and again.
func TestCrashInEveryProgram(t *testing.T) {
	withNamesLost := append([]string{namesLost}, operations...)
	withLater := append([]string{later}, withNamesLost...)
	notHeld := NewFileShare(0)
	plans := []struct {
		unsynced
		files      *FileShare
		operations []string
		nested     []int // crashes in recoveries, by the length of the program
	}{
		{noneUnsynced, nil, operations, []int{2, 2, 0}},
		{indexUnsynced, nil, withNamesLost, []int{1, 1, 0}},
		{hintsUnsynced, nil, withNamesLost, []int{1, 0}},
		{indexUnsynced, notHeld, withLater, []int{1, 0, 0}},
		{hintsUnsynced, notHeld, withLater, []int{1, 0}},
	}
	if long() {
		plans[0].nested = []int{2, 2, 2, 1, 0, 0}
		plans[1].nested = []int{2, 2, 1, 0, 0}
		plans[2].nested = []int{2, 1, 0, 0}
	}
	for _, plan := range plans {
		for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
			t.Run(fmt.Sprint(plan.unsynced, " ", p, " ", shareName(plan.files)), func(t *testing.T) {
				workers := runtime.GOMAXPROCS(0)
				checkers := make([]*checker, workers)
				for i := range checkers {
					checkers[i] = newChecker(t, 40)
					checkers[i].unsynced, checkers[i].opt.Files = plan.unsynced, plan.files
					checkers[i].checked = checkers[0].checked
				}
				depth := 0
				x := &explorer{p: p, unsynced: plan.unsynced, files: plan.files, operations: plan.operations, every: func(t *testing.T, worker int, s state) {
					checkers[worker].t = t
					checkers[worker].crash(s, depth)
				}}
				places, programs, begin := x.start(t), 0, time.Now()
				for length, nested := range plan.nested {
					depth = nested
					places = x.longer(t, places, workers)
					if t.Failed() {
						return
					}
					programs += power(len(plan.operations), length+1)
					looked := 0
					for _, c := range checkers {
						looked += c.looked
					}
					t.Logf("up to length %d: %d programs in %d places, %d operations examined with %d states, %d images; %d crashes in recoveries; %s so far",
						length+1, programs, len(x.known), x.examined.Load(), x.passed.Load(), looked, nested, time.Since(begin).Round(time.Millisecond))
				}
			})
		}
	}
}

// D4, RET-04: a segment whose name was lost by a failed sync was found again by a process, as it was in the page cache, and then was all
// that retention left: after a power failure the bounds told of a segment that was not there.
func TestNothingLeftButALostName(t *testing.T) {
	for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		for _, removal := range []string{"compact", "retain"} {
			t.Run(fmt.Sprint(p, " ", removal), func(t *testing.T) {
				c := newChecker(t, 40)
				x := &explorer{p: p, every: func(t *testing.T, _ int, s state) { c.crash(s, 1) }}
				at := x.start(t)[0]
				for _, op := range []string{"1", namesLost, removal} {
					at = x.operation(t, 0, at, op)
				}
			})
		}
	}
}

func power(base, exponent int) int {
	n := 1
	for range exponent {
		n *= base
	}
	return n
}

// What is not examined because two programs lead to the same place is examined all the same: the images are those of all programs, one
// by one, and so are the debts.
func TestReductionsLoseNothing(t *testing.T) {
	length := 2
	if long() {
		length = 3
	}
	with := append([]string{namesLost}, operations...)
	for _, c := range []struct {
		unsynced
		files      *FileShare
		operations []string
	}{
		{noneUnsynced, nil, with}, {indexUnsynced, nil, with}, {hintsUnsynced, nil, with},
		{indexUnsynced, NewFileShare(0), append([]string{later}, with...)},
	} {
		for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
			t.Run(fmt.Sprint(c.unsynced, " ", p, " ", shareName(c.files)), func(t *testing.T) {
				t.Parallel()
				images := func(all bool) (found map[[2]uint64]bool, examined int64) {
					found = map[[2]uint64]bool{}
					x := &explorer{p: p, unsynced: c.unsynced, files: c.files, operations: c.operations, all: all, every: func(_ *testing.T, _ int, s state) {
						debts := s.obligation()
						for img := range s.disk.Crashes(0) {
							found[[2]uint64{img.Hash(), debts}] = true
						}
						s.disk.ProcessCrash()
						found[[2]uint64{s.disk.StateHash(), debts}] = true
					}}
					places := x.start(t)
					for range length {
						places = x.longer(t, places, 1)
					}
					return found, x.examined.Load()
				}
				all, programs := images(true)
				merged, examined := images(false)
				require.Less(t, examined, programs)
				require.Equal(t, len(all), len(merged))
				require.Equal(t, all, merged)
				t.Logf("%d programs, %d examined, %d images", programs, examined, len(all))
			})
		}
	}
}
