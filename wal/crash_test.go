package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
)

// The tests of this file run small programs on a simulated disk, stop the world before and after every
// change of the disk, and open what each kind of crash at that moment can leave. They watch INV-03.

// depth scales the number of programs and images.
func depth(normal, long int) int {
	if os.Getenv("NARAD_LONG") == "1" {
		return long
	}
	return normal
}

// tally counts the images of this package's tests.
var tally disk.Tally

func TestMain(m *testing.M) {
	code := m.Run()
	if tally.Images() > 0 {
		fmt.Println(&tally)
	}
	os.Exit(code)
}

// atOnce is an Options.CheckpointSync that lets the sync follow the store immediately.
const atOnce = time.Nanosecond

// options make every feature happen within a few records.
func (c *crasher) options() Options {
	return Options{SegmentBytes: 2000, BatchBytes: 3000, CheckpointSync: c.delay, IdleRollBytes: 300, Preallocate: c.prepare}
}

// payloadOf is what the record with that number holds in every program.
func payloadOf(seq uint64) []byte {
	size := []int{1, 30, 480, 700, 1300}[seq%5]
	return bytes.Repeat([]byte{byte('A' + seq%26)}, size)
}

func isPayloadOf(seq uint64, b []byte) bool {
	want := payloadOf(seq)
	return bytes.Equal(b, want)
}

// promise is what the log has promised at some moment, and what was asked of it.
type promise struct {
	next            uint64 // every record below is durable
	asked           uint64 // one beyond the last record that was given to Append
	stored, durable uint64 // checkpoint
	wanted          uint64 // checkpoint that was given to SetCheckpoint
}

// crasher runs a program and examines crashes.
type crasher struct {
	t      testing.TB
	disk   *disk.Disk
	rig    *rig
	limit  int           // images per moment
	delay  time.Duration // Options.CheckpointSync
	images int
	fatal  bool // a write or sync of a segment has failed since the log was opened

	prepare  bool // Options.Preallocate
	harmless bool // what failed was only the preparation of a segment

	watchFrom int // step from which on crashes are examined; -1: as the test says

	mu  sync.Mutex // guards the fields below
	log *Log
	p   promise
}

func newCrasher(t testing.TB, personality disk.Personality, limit int) *crasher {
	c := &crasher{t: inHook{t}, disk: disk.New(personality), limit: limit, delay: atOnce, watchFrom: -1, p: promise{next: 1, asked: 1, stored: 1, durable: 1, wanted: 1}}
	c.rig = newDiskRig(t, c.disk)
	return c
}

func (c *crasher) promise() promise {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		c.p.next = c.log.Next()
		c.p.stored, c.p.durable = c.log.Checkpoint()
	}
	return c.p
}

func (c *crasher) open() {
	c.promise()
	c.mu.Lock()
	c.log = nil
	c.mu.Unlock()
	l := c.rig.open(c.options())
	c.mu.Lock()
	c.log = l
	c.mu.Unlock()
}

// run executes a program of one letter per step:
//
//	a append one record      b append three at once     c checkpoint half way    e checkpoint at the end
//	w wait until the checkpoint is durable              r close and reopen       k kill the process and reopen
//	p wait until what is to be prepared is
func (c *crasher) run(program string) {
	c.open()
	for i, step := range program {
		if c.watchFrom == i {
			c.watch()
		}
		switch step {
		case 'a':
			c.append(1)
		case 'b':
			c.append(3)
		case 'c':
			stored, _ := c.log.Checkpoint()
			c.checkpoint((stored + c.log.Next() + 1) / 2)
		case 'e':
			c.checkpoint(c.log.Next())
		case 'w':
			if c.delay != atOnce {
				continue
			}
			require.Eventually(c.t, func() bool { stored, durable := c.log.Checkpoint(); return stored == durable }, time.Minute, 10*time.Microsecond)
		case 'p':
			c.awaitPreparation()
		case 'r':
			require.NoError(c.t, c.log.Close())
			c.open()
		case 'k':
			require.NoError(c.t, c.log.Close()) // the disk is what counts: the images of a kill were examined on the way
			c.open()
		}
	}
	require.NoError(c.t, c.log.Close())
}

func (c *crasher) awaitPreparation() {
	l := c.log
	require.Eventually(c.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err != nil || !l.prepared.wanted && l.prepared.state != prepareBusy
	}, time.Minute, 10*time.Microsecond)
}

func (c *crasher) append(n int) error {
	c.mu.Lock()
	first := c.p.asked
	c.p.asked += uint64(n)
	c.mu.Unlock()
	var payloads [][]byte
	for i := range n {
		payloads = append(payloads, payloadOf(first+uint64(i)))
	}
	got, err := c.log.Append(payloads...)
	if err == nil {
		require.Equal(c.t, first, got)
	}
	return err
}

func (c *crasher) checkpoint(seq uint64) error {
	c.mu.Lock()
	c.p.wanted = max(c.p.wanted, seq)
	c.mu.Unlock()
	return c.log.SetCheckpoint(seq)
}

// watch examines every crash before and after each op from now on.
func (c *crasher) watch() {
	c.rig.hooks.before = func(o op) (int, error) {
		c.examine("before "+o.kind+" "+o.name, c.disk)
		return 0, nil
	}
	c.rig.hooks.after = func(o op) { c.examine("after "+o.kind+" "+o.name, c.disk) }
}

// examine opens what a crash can leave now. It is called by hooks.
func (c *crasher) examine(when string, d *disk.Disk) {
	if c.t.Failed() {
		return
	}
	p := c.promise()
	killed := d.Clone()
	killed.ProcessCrash()
	c.checkImage(when+", killed", killed, p, p.stored)
	for image := range tally.Crashes(d, c.limit) {
		c.check(when+", power lost", image, p, p.durable)
	}
}

// checkImage is check for an image that is not one of an enumeration.
func (c *crasher) checkImage(when string, image *disk.Disk, p promise, leastCheckpoint uint64) {
	tally.Image()
	c.check(when, image, p, leastCheckpoint)
}

// key tells images and promises apart whose recoveries may come to something else.
func (c *crasher) key(image *disk.Disk, p promise, leastCheckpoint uint64) [3]uint64 {
	owed := p.next
	for _, n := range []uint64{p.asked, leastCheckpoint, p.wanted, uint64(c.delay)} {
		owed = owed*1000003 + n
	}
	if c.prepare {
		owed = ^owed
	}
	return [3]uint64{image.Hash(), image.DurableHash() ^ image.CrashCount()*1000003, owed}
}

// check opens one image and holds it to the promise, unless one like it was.
func (c *crasher) check(when string, image *disk.Disk, p promise, leastCheckpoint uint64) {
	c.images++
	if !tally.First(c.key(image, p, leastCheckpoint)) {
		return
	}
	kept := image.Clone()
	r := openRig(c.t, image)
	l, err := r.tryOpen(c.options())
	if err != nil {
		var dump strings.Builder
		kept.Dump(&dump)
		require.NoError(c.t, err, "%s: %+v\n%s", when, p, dump.String())
	}
	defer l.Close()
	hold := func(ok bool, what string) { // testify costs more than the recovery
		if !ok {
			stored, durable := l.Checkpoint()
			require.Fail(c.t, what, "%s: recovered up to %d, checkpoint %d, durable %d; %+v", when, l.Next(), stored, durable, p)
		}
	}
	next := l.Next()
	hold(next >= p.next, "durable records are lost")
	hold(next <= p.asked, "records are invented")
	stored, durable := l.Checkpoint()
	hold(stored >= leastCheckpoint, "the checkpoint went back") // WAL-17, WAL-18
	hold(stored <= p.wanted, "the checkpoint is ahead")         // WAL-19
	hold(stored == durable, "the checkpoint is not durable")
	recovered := eventsOf[Recovered](r)[0]
	hold(!recovered.Lowered, "records were removed above the durable checkpoint") // WAL-19
	hold(recovered.First <= stored, "records at the checkpoint are missing")
	requireRecords(c.t, l, stored, next, when)

	// Everything that is counted as durable is: nothing but what is on the disk survives now.
	again := image.Durable()
	l2, err := openRig(c.t, again).tryOpen(c.options())
	if err != nil {
		require.NoError(c.t, err, "%s, then opened, then power lost", when)
	}
	defer l2.Close()
	hold(l2.Next() == next, "what was recovered was not durable")
	point, _ := l2.Checkpoint()
	hold(point >= durable, "the recovered checkpoint was not durable")
	requireRecords(c.t, l2, stored, next, when)
	first, err := l2.Append([]byte("after"))
	hold(err == nil, "the recovered log takes no records")
	hold(first == next, "the recovered log goes on elsewhere")
}

func requireRecords(t testing.TB, l *Log, from, next uint64, when string) {
	r := l.NewReader(from)
	defer r.Close()
	for seq := from; ; seq++ {
		got, payload, ok, err := r.Next()
		if err == nil && !ok && seq == next {
			return
		}
		if err != nil || !ok || got != seq || !isPayloadOf(seq, payload) {
			require.Fail(t, "a record is not what was appended", "%s: record %d of %d … %d: number %d, %v, %v", when, seq, from, next, got, ok, err)
		}
	}
}

// openRig returns a rig on a disk that has the directory.
func openRig(t testing.TB, d *disk.Disk) *rig { return newDiskRig(t, d) }

var programs = []string{
	"", "", "r", "r", "bbb", "bbb", "bbcbbbb", "bbcbbbb", "a", "b", "aaaa", "bb", "bbb", "abcew", "aar", "bkb", "bewbew", "bbbcwbcw", "abewrab", "aawcacawrb", "ererar", "bbewabkew",
}

// preparing are programs for a log that prepares its segments.
var preparing = []string{"bpbbbpbbb", "bbpbbbpcbbb", "bpbpewbbpewbbbpbbb", "apkbpbr", "bbpbbpbewpbbpkbbpbbew"}

// randomPrograms returns the fixed programs and some drawn ones.
func randomPrograms(count, steps int) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	list := append([]string(nil), programs...)
	for range count {
		var b strings.Builder
		for range steps {
			b.WriteByte("aabbcewwrk"[rng.IntN(10)])
		}
		list = append(list, b.String())
	}
	return list
}

// INV-03, WAL-02, WAL-06, WAL-17, WAL-18, WAL-19, WAL-30; BUG-138: whatever a crash leaves at any moment, the
// log opens and has kept its promises.
func TestCrashAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, personality := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		t.Run(personality.String(), func(t *testing.T) {
			t.Parallel()
			images := 0
			examine := func(program string, delay time.Duration, prepare bool) {
				c := newCrasher(t, personality, depth(300, 4000))
				c.delay, c.prepare = delay, prepare
				c.watch()
				guard(func() { c.run(program) })
				require.False(t, t.Failed(), "program %q, checkpoint sync %v, prepare %v", program, c.delay, prepare)
				images += c.images
			}
			delays := []time.Duration{atOnce, time.Hour} // with the latter the checkpoint on the disk stays behind
			for i, program := range randomPrograms(depth(60, 400), 12) {
				examine(program, delays[i%2], false)
				if os.Getenv("NARAD_LONG") == "1" {
					examine(strings.ReplaceAll(program, "b", "bp"), delays[i%2], true)
				}
			}
			for _, program := range preparing {
				examine(program, atOnce, true)
			}
			t.Logf("%d images", images)
		})
	}
}

// INV-03, WAL-02, WAL-06, WAL-17, WAL-18, WAL-19: the same for every program of up to so many steps; rolls and
// compactions happen within them. Of each the last step and the close are examined: what comes before is another program.
func TestCrashInEveryShortProgram(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		steps   string
		delay   time.Duration
		prepare bool
		length  int
	}{
		{"abcewr", atOnce, false, depth(5, 6)},
		{"abcer", time.Hour, false, depth(5, 6)},
		{"abpewr", atOnce, true, depth(3, 5)},
	}
	for _, personality := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(personality, kind.steps, kind.prepare), func(t *testing.T) {
				t.Parallel()
				count, images := 0, 0
				var extend func(program string)
				extend = func(program string) {
					for i := range len(kind.steps) {
						if t.Failed() {
							return
						}
						longer := program + kind.steps[i:i+1]
						c := newCrasher(t, personality, depth(200, 2000))
						c.delay, c.prepare, c.watchFrom = kind.delay, kind.prepare, len(program)
						guard(func() { c.run(longer) })
						require.False(t, t.Failed(), "program %q", longer)
						count++
						images += c.images
						if len(longer) < kind.length {
							extend(longer)
						}
					}
				}
				extend("")
				t.Logf("%d programs, %d images", count, images)
			})
		}
	}
}

// A process that dies in the middle of a write leaves any prefix of it.
func TestKilledInTheMiddleOfAWrite(t *testing.T) {
	t.Parallel()
	for i, program := range append(randomPrograms(3, 12), preparing...) {
		c := newCrasher(t, disk.Adversarial, 100)
		if c.prepare = i >= len(programs)+3; c.prepare {
			c.limit = depth(20, 100)
		}
		c.rig.hooks.before = func(o op) (int, error) {
			if o.kind != "write" || !strings.HasSuffix(o.name, segmentSuffix) {
				return 0, nil // a write within one sector happens whole or not at all
			}
			p := c.promise()
			for n := 1; n < o.size && !t.Failed(); n += 1 + o.size/17 {
				torn := c.disk.Clone()
				_, ino, err := torn.Lookup(torn.Root(), "wal/"+o.name)
				require.NoError(c.t, err)
				require.NoError(c.t, torn.WriteShort(ino, o.data, o.off, n))
				for image := range tally.Crashes(torn, c.limit) {
					c.check(fmt.Sprintf("killed after %d of %d bytes, then power lost", n, o.size), image, p, p.durable)
				}
				torn.ProcessCrash()
				c.checkImage(fmt.Sprintf("killed after %d of %d bytes", n, o.size), torn, p, p.stored)
			}
			return 0, nil
		}
		guard(func() { c.run(program) })
		require.False(t, t.Failed(), "program %q", program)
	}
}

// A crash in the middle of opening, and one in the middle of opening what that left.
func TestCrashWhileOpening(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	count := 0
	drawn := randomPrograms(depth(4, 100), 10)
	for i, program := range append(drawn, preparing...) {
		c := newCrasher(t, []disk.Personality{disk.Adversarial, disk.Ordered}[i%2], 12)
		if c.prepare = i >= len(drawn); c.prepare {
			c.limit = depth(5, 12)
		}
		var images []*disk.Disk
		var promises []promise
		c.rig.hooks.before = func(o op) (int, error) {
			for image := range tally.Crashes(c.disk, 30) {
				if rng.IntN(depth(5, 1)) == 0 {
					images, promises = append(images, image), append(promises, c.promise())
				}
			}
			if o.kind == "write" && o.name != checkpointName {
				torn := c.disk.Clone()
				_, ino, err := torn.Lookup(torn.Root(), "wal/"+o.name)
				require.NoError(c.t, err)
				require.NoError(c.t, torn.WriteShort(ino, o.data, o.off, rng.IntN(o.size)))
				torn.ProcessCrash()
				images, promises = append(images, torn), append(promises, c.promise())
			}
			return 0, nil
		}
		guard(func() { c.run(program) })
		require.False(t, t.Failed(), "program %q", program)
		for i, image := range images {
			again := &crasher{t: inHook{t}, delay: atOnce, watchFrom: -1, prepare: c.prepare, disk: image, rig: openRig(t, image), limit: c.limit, p: promises[i]}
			again.p.stored = again.p.durable // the first crash may have lost it
			again.watch()
			l, err := again.rig.tryOpen(again.options())
			require.NoError(t, err)
			require.NoError(t, l.Close())
			require.False(t, t.Failed(), "program %q, image %d", program, i)
			count += again.images
		}
	}
	t.Logf("%d images", count)
}

// breakdown is one way in which a call to the disk fails.
type breakdown struct {
	name string
	// fail breaks the disk and returns the error of the call, or nil when it does not apply to it.
	fail func(c *crasher, o op) (short int, err error)
}

func (c *crasher) syncFails(o op, keep bool) error {
	_, ino, err := c.disk.Lookup(c.disk.Root(), "wal/"+o.name)
	require.NoError(c.t, err)
	c.disk.SyncFails(ino, keep)
	return syscall.EIO
}

var breakdowns = []breakdown{
	{"EIO", func(c *crasher, o op) (int, error) {
		if o.kind == "sync" {
			return 0, nil
		}
		return 0, syscall.EIO
	}},
	{"ENOSPC after a prefix", func(c *crasher, o op) (int, error) {
		if o.kind != "write" || o.name == checkpointName {
			return 0, nil
		}
		return o.size * 2 / 3, syscall.ENOSPC
	}},
	{"EIO after the whole write", func(c *crasher, o op) (int, error) {
		if o.kind != "write" || o.name == checkpointName {
			return 0, nil
		}
		return o.size, syscall.EIO
	}},
	{"sync fails, pages clean", func(c *crasher, o op) (int, error) {
		if o.kind != "sync" {
			return 0, nil
		}
		return 0, c.syncFails(o, true)
	}},
	{"sync fails, pages gone", func(c *crasher, o op) (int, error) {
		if o.kind != "sync" {
			return 0, nil
		}
		return 0, c.syncFails(o, false)
	}},
}

// WAL-10, WAL-11, WAL-12, Q-44; BUG-143, BUG-144: the N-th call to the disk fails, for every N. Nothing is written to a segment
// after a failed write or sync, what was durable stays readable, and the log that is opened on the
// same machine afterwards has everything that was durable, and keeps it through a power failure although
// the pages of the failed sync will never be written.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	list := []string{"abbabc", "bbewbb", "aacwaraa"}
	for _, b := range breakdowns {
		t.Run(b.name, func(t *testing.T) {
			failures := 0
			growing := append(list, randomPrograms(depth(0, 50), 10)[len(programs):]...)
			for i, program := range append(growing, preparing...) {
				for n := 1; ; n++ {
					c := newCrasher(t, disk.Adversarial, 1)
					c.prepare = i >= len(growing)
					more := false
					guard(func() { more = c.failNth(b, n, program) })
					require.False(t, t.Failed(), "program %q, call %d", program, n)
					if !more {
						break
					}
					failures++
				}
			}
			require.Greater(t, failures, 10)
		})
	}
}

// failNth runs the program with the n-th call failing and reports whether there was one.
func (c *crasher) failNth(b breakdown, n int, program string) bool {
	calls, failed := 0, op{}
	c.rig.hooks.before = func(o op) (int, error) {
		segment := strings.HasSuffix(o.name, segmentSuffix)
		if c.fatal {
			require.False(c.t, segment && (o.kind == "write" || o.kind == "create"), "%s %s after a failed %s %s", o.kind, o.name, failed.kind, failed.name)
		}
		if calls++; calls != n {
			return 0, nil
		}
		short, err := b.fail(c, o)
		if err == nil {
			n++ // does not apply; the next one
			return 0, nil
		}
		failed, c.fatal = o, segment && (o.kind == "write" || o.kind == "sync")
		c.harmless = o.name == preparedName || o.kind == "rename" || o.kind == "remove" || segment && o.kind == "truncate"
		return short, err
	}
	c.runBroken(program)
	c.rig.hooks.before = nil
	if failed.kind == "" {
		return false
	}
	p := c.promise()
	c.mu.Lock()
	c.log = nil
	c.mu.Unlock()
	when := fmt.Sprintf("%s: %s of %s failed", program, failed.kind, failed.name)
	kept := c.disk.Clone()
	kept.ProcessCrash()
	least := p.stored
	if failed.name == checkpointName {
		least = p.durable // the page cache may have gone back
	}
	c.checkImage(when+", reopened", kept, p, least)
	lost := c.disk.Durable()
	c.checkImage(when+", power lost", lost, p, p.durable)
	return true
}

// runBroken executes a program whose log may fail at any step.
func (c *crasher) runBroken(program string) {
	open := func() {
		c.promise()
		c.mu.Lock()
		c.log = nil
		c.mu.Unlock()
		c.fatal = false
		l, err := c.rig.tryOpen(c.options())
		if err != nil {
			c.fatal = false
			l, err = c.rig.tryOpen(c.options())
		}
		require.NoError(c.t, err, "one call failed while opening, so opening again must do")
		c.fatal = false
		c.mu.Lock()
		c.log, c.p.asked = l, l.Next() // what was asked for and is not there will never be
		c.mu.Unlock()
	}
	open()
	for _, step := range program {
		switch step {
		case 'a', 'b':
			if err := c.append(map[rune]int{'a': 1, 'b': 3}[step]); err != nil {
				c.afterFailure(err)
			}
		case 'c':
			stored, _ := c.log.Checkpoint()
			c.checkpoint((stored + c.log.Next() + 1) / 2)
		case 'e':
			c.checkpoint(c.log.Next())
		case 'w':
			if c.delay != atOnce {
				continue
			}
			require.Eventually(c.t, func() bool { stored, durable := c.log.Checkpoint(); return stored == durable }, time.Minute, 10*time.Microsecond)
		case 'p':
			c.awaitPreparation()
		case 'r', 'k':
			c.log.Close()
			open()
		}
	}
	c.log.Close()
}

// afterFailure checks what a failed append leaves. WAL-11, WAL-12.
func (c *crasher) afterFailure(err error) {
	require.False(c.t, c.harmless, "the append failed because a segment could not be prepared: %v", err)
	stored, _ := c.log.Checkpoint()
	requireRecords(c.t, c.log, stored, c.log.Next(), "after a failure")
	if c.log.Err() == nil { // no segment could be created: the same records may be appended again
		c.mu.Lock()
		c.p.asked = c.log.Next()
		c.mu.Unlock()
		return
	}
	var failed *FailedError
	require.ErrorAs(c.t, err, &failed)
	require.ErrorAs(c.t, c.log.Err(), &failed)
	_, err = c.log.Append([]byte("more"))
	require.ErrorAs(c.t, err, &failed)
	next := c.log.Next()
	require.NoError(c.t, c.log.SetCheckpoint(max(stored, next-1)))
	c.mu.Lock()
	c.p.wanted = max(c.p.wanted, next-1)
	c.mu.Unlock()
}
