package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/inflight"
	"narad/sim/disk"
)

// image is a disk that a crash may have left, and what a recovery of it has to live up to.
type image struct {
	disk    *disk.Disk
	promise promise
	lossy   bool   // something unsynced is gone: a power loss
	story   string // how it came about
}

// camera takes the images of crashes at every operation of a life. Use its hook in that life.
type camera struct {
	disk    *disk.Disk
	promise func() promise
	version func() int // of the promise
	power   int        // images of power losses for one moment, at most
	story   string
	stale   bool // the disk has changed since the last images
	seen    map[uint64]int
	last    int
	images  []image
}

func newCamera(d *disk.Disk, power int, story string, version func() int, p func() promise) *camera {
	return &camera{disk: d, promise: p, version: version, power: power, story: story, stale: true, seen: map[uint64]int{}, last: -1}
}

// hook is called before each operation, so after the one before it.
func (c *camera) hook(op disk.Op) error {
	c.shoot(op.String())
	c.stale = c.stale || op.Kind.Changes()
	return nil
}

// shoot takes the images of this moment, unless nothing has changed since the last.
func (c *camera) shoot(at string) {
	version := c.version()
	if !c.stale && version == c.last {
		return
	}
	c.stale, c.last = false, version
	p := c.promise()
	dead := c.disk.Clone()
	dead.ProcessCrash()
	c.keep(image{dead, p, false, c.story + ", process crash before " + at}, dead.Hash()^dead.DurableHash()*3)
	for d := range c.disk.Crashes(c.power) {
		c.keep(image{d, p.afterPowerLoss(), true, c.story + ", power loss before " + at}, d.Hash()+1)
	}
}

func (c *camera) keep(i image, hash uint64) {
	if was, seen := c.seen[hash]; seen && was == c.last {
		return
	}
	c.seen[hash] = c.last
	c.images = append(c.images, i)
}

// state is all of a recovery that a second one has to repeat.
type state struct {
	topics []Topic
	ends   map[Key]int64
	seeded map[Key]inflight.State
	copies map[place]string
}

func (f *found) state(p promise) state {
	s := state{f.topics, f.ends, f.seeded, maps.Clone(f.delivered)}
	for at := range p.acked { // order-free: into a map
		if seeded, ok := f.seeded[at.Key]; ok && isSettled(seeded, at.Offset) {
			s.copies[at] = p.holds[at]
		}
	}
	return s
}

// messages returns what is stored, without the places: a crash between a commit and its checkpoint commits again (WAL-16).
func (s state) messages() []string {
	set := map[string]bool{}
	for _, id := range s.copies { // order-free: into a set
		set[id] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// prover opens images, counts them, and goes on with the crashes of the recoveries.
type prover struct {
	t        *testing.T
	deepest  int
	sample   []int // by depth: of so many images, one is examined for crashes of its recovery
	power    []int // by depth: images of power losses for one moment
	images   []int // by depth
	nested   int   // recoveries that were crashed at every operation
	repeats  int   // recoveries that were compared with the one of their result
	failures int
}

func (p *prover) fail(i image, err error) {
	p.failures++
	if p.failures <= 5 {
		p.t.Errorf("%s:\n%v", i.story, err)
	}
}

// prove opens an image: everything promised must be kept, and a recovery of what the recovery leaves must find the same. It
// returns what was found, nil after a failure.
func (p *prover) prove(i image, depth int) *found {
	p.images[depth]++
	n := p.images[depth]
	deeper := depth < p.deepest && n%p.sample[depth] == 0
	var cam *camera
	var hook disk.Hook
	if deeper {
		cam = newCamera(i.disk, p.power[depth+1], i.story, func() int { return 0 }, func() promise { return i.promise })
		hook = cam.hook
	}
	f, err := reopen(uint64(7+depth), i.disk, hook)
	if err == nil {
		err = f.check(i.promise)
	}
	if err != nil {
		p.fail(i, err)
		return nil
	}
	if n%4 == 0 || deeper {
		p.repeat(i, f)
	}
	if !deeper {
		return f
	}
	p.nested++
	cam.shoot("its end")
	for _, next := range cam.images {
		g := p.prove(next, depth+1)
		if g == nil {
			continue
		}
		if err := converges(f.state(i.promise), g.state(i.promise), i.lossy || !next.lossy); err != nil {
			p.fail(next, err)
		}
	}
	return f
}

// repeat requires that recover(recover(x)) = recover(x), which a life without acks changes nothing about.
func (p *prover) repeat(i image, f *found) {
	p.repeats++
	again, err := reopen(9, i.disk.Clone(), nil)
	if err == nil && again.err != nil {
		err = again.err
	}
	if err == nil {
		err = differ(f.state(i.promise), again.state(i.promise))
	}
	if err != nil {
		p.fail(i, fmt.Errorf("a second recovery finds something else: %w", err))
	}
}

// converges requires that a recovery which was interrupted stores no other messages and settles nothing else than the whole
// one. Without durable, when the interruption lost what the recovery had found unsynced, it may have less of what
// nobody was promised.
func converges(whole, got state, durable bool) error {
	if !durable {
		for _, id := range got.messages() {
			if !slices.Contains(whole.messages(), id) {
				return fmt.Errorf("the interrupted recovery came to %s, which the whole one did not have", id)
			}
		}
		return nil
	}
	if !slices.Equal(got.messages(), whole.messages()) {
		return fmt.Errorf("the interrupted recovery came to %v, the whole one to %v", got.messages(), whole.messages())
	}
	return sameSettled(whole, got)
}

func differ(a, b state) error {
	switch {
	case !slices.Equal(a.topics, b.topics):
		return fmt.Errorf("topics %v, then %v", a.topics, b.topics)
	case !maps.Equal(a.ends, b.ends):
		return fmt.Errorf("high watermarks %v, then %v", a.ends, b.ends)
	case !maps.Equal(a.copies, b.copies):
		return fmt.Errorf("copies %v, then %v", a.copies, b.copies)
	}
	return sameSettled(a, b)
}

func sameSettled(a, b state) error {
	for k, s := range a.seeded { // order-free: each on its own
		if t := b.seeded[k]; s.Committed != t.Committed || !slices.Equal(s.Ahead, t.Ahead) {
			return fmt.Errorf("%v: settled %+v, then %+v", k, s, t)
		}
	}
	return nil
}

// INV-02, INV-04, INV-08, INV-09, INV-11, FAIL-10, FAIL-12, FAIL-13, AVL-17: whatever operation of a story a crash hits, and whichever
// operations of the recoveries from it further crashes hit, everything with a 202 is delivered or was acked, nothing
// else counts as settled, acks do not come back beyond their windows, no high watermark falls, and a recovery repeats itself.
func TestProofCrashImages(t *testing.T) {
	for _, personality := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		t.Run(personality.String(), func(t *testing.T) {
			p := &prover{t: t, deepest: 2, sample: []int{pick(12, 1), pick(40, 10)}, power: []int{pick(12, 40), pick(3, 8), 2}, images: make([]int, 3)}
			d, l, next := disk.New(personality), newLedger(), 0
			version := func() int { return l.version }
			for i := range lives {
				cam := newCamera(d, p.power[0], fmt.Sprintf("life %d", i), version, l.promise)
				require.NoError(t, tellLife(i, d, cam.hook, l, &next))
				cam.shoot("its end")
				for _, i := range cam.images {
					p.prove(i, 0)
				}
				require.Zero(t, p.failures)
			}
			t.Logf("%d images of crashes, %d of crashes in %d recoveries, %d of crashes in recoveries from those; %d recoveries repeated",
				p.images[0], p.images[1], p.nested, p.images[2], p.repeats)
		})
	}
}

// The checker of recoveries sees each kind of broken promise.
func TestProofCrashNotices(t *testing.T) {
	d, l, next := disk.New(disk.Adversarial), newLedger(), 0
	require.NoError(t, tellLife(0, d, nil, l, &next))
	p := l.promise()
	check := func(change func(p *promise, f *found), want string) {
		t.Helper()
		f, err := reopen(1, d.Clone(), nil)
		require.NoError(t, err)
		require.NoError(t, f.check(p))
		q := p
		q.acked, q.hw, q.accepted = maps.Clone(p.acked), maps.Clone(p.hw), slices.Clone(p.accepted)
		change(&q, f)
		require.ErrorContains(t, f.check(q), want)
	}
	check(func(p *promise, _ *found) { p.tried = map[string]bool{} }, "nobody produced")
	check(func(p *promise, _ *found) { p.accepted = append(p.accepted, "m99") }, "lost [m99]")
	check(func(p *promise, _ *found) { clear(p.acked) }, "never acked")
	check(func(p *promise, _ *found) { p.hw[Key{"t", 0}] = 99 }, "high watermark was 99")
	check(func(p *promise, f *found) { p.cached = map[place]bool{sortedPlaces(f.delivered)[0]: true} }, "delivered again")
	check(func(p *promise, f *found) { f.err = errors.New("broken") }, "does not open")
	check(func(p *promise, f *found) { f.skipped[place{}] = errors.New("broken") }, "unreadable")
	check(func(p *promise, f *found) { f.loud = append(f.loud, RecordHeld{}) }, "RecordHeld")
}
