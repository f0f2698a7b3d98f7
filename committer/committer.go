package committer

import (
	"errors"
	"fmt"
	"sort"
	"sync"

	"narad/env"
	"narad/vfs"
)

// ErrStranded reports a partition whose directory was removed or replaced while its shard lives.
var ErrStranded = errors.New("partition directory removed or replaced under its persisted state")

// Committer persists what is settled in the partitions of a node. Its methods may be called by any task; those
// that wait say so.
//
// Lock order: mu is a leaf, held over memory only. Options.Naming is taken by the task, with a partition in hand; whoever holds it waits
// for file calls only. A partition "in hand" is a lock too, between the task and
// Forget; it is not held while State runs.
type Committer struct {
	env  *env.Env
	o    Options
	wake *env.Waiter // of the task; only Close gives a permit
	done *env.Event

	mu         sync.Mutex // guards the fields below
	roster     roster
	hand       hand
	waiting    []*env.Waiter // forgets that wait for the hand
	forgetting map[Key]int
	closing    bool
	stopped    bool

	// The task's own.
	ahead      []int64 // State's buffer
	buf        []byte  // a record's bytes
	keys       []Key
	dirty      []dirtied
	due        []*part
	handed     []handed // synced to their devices in this tick, the flush is to come
	tickNo     uint64
	now        TickDone // of the tick that runs
	force      bool     // it is the last one: all is due
	tickLate   limiter
	writesLate limiter
	err        error // of Close, read after done
}

// hand is the partition that the task works on.
type hand struct {
	key       Key
	on        bool
	writing   bool // past the snapshot: a forget waits
	forgotten bool // a forget came during the snapshot, which must not be written
}

// Start starts the committer's task.
func Start(e *env.Env, o Options) (*Committer, error) {
	c, err := newCommitter(e, o)
	if err != nil {
		return nil, err
	}
	e.Go("committer", c.run)
	return c, nil
}

func newCommitter(e *env.Env, o Options) (*Committer, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Naming == nil {
		turn := e.NewMutex()
		o.Naming = func(Key) *env.Mutex { return turn }
	}
	return &Committer{
		env: e, o: o, wake: e.NewWaiter(), done: e.NewEvent(),
		roster: newRoster(o), forgetting: map[Key]int{},
	}, nil
}

// Dirty says that the settled state of k changed. Call it after the shard's lock was released. It never
// blocks and makes nothing durable; the next tick takes the state from the live shard.
func (c *Committer) Dirty(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.roster.mark(k)
	}
}

// Touch says that k was found after an unclean start: what its consumer.ahead holds, which may be in the
// page cache only, is made durable within an interval even if nobody acks, whether or not k has a shard. It
// never blocks.
func (c *Committer) Touch(k Key) {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.roster.touch(k, now)
	}
}

// Forget drops the descriptor and the state held for k. It waits for an operation on k that is under way;
// once it returns no snapshot taken before is ever written. A shard of k that acks later is primed afresh.
//
// Call it after every drop of a shard, and hold no lock that State takes.
func (c *Committer) Forget(k Key) {
	now := c.env.Now()
	c.mu.Lock()
	c.forgetting[k]++ // the task takes k no more in hand
	for c.hand.on && c.hand.key == k && c.hand.writing {
		w := c.env.NewWaiter()
		c.waiting = append(c.waiting, w)
		c.mu.Unlock()
		w.Park()
		c.mu.Lock()
	}
	if c.hand.on && c.hand.key == k {
		c.hand.forgotten = true
	}
	p, f := c.roster.forget(k)
	if p != nil && p.missed {
		c.roster.mark(k) // acks of a successor may be among those that were skipped
	}
	if p != nil && !p.idle() {
		c.roster.touch(k, now) // a successor in the same directory may be seeded from what is not durable
	}
	if c.forgetting[k]--; c.forgetting[k] == 0 {
		delete(c.forgetting, k)
	}
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
	c.o.Event(Forgotten{Key: k})
}

// Close runs a final tick, writes every partition out, levels every consumer.offset, and stops the task.
// When it returns nil both files of every partition are exact and durable. Acks must have ended before.
// Further calls return what the first one did.
func (c *Committer) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.wake.Unpark()
	c.done.Wait()
	return c.err
}

func (c *Committer) run() {
	next := c.env.Now().Add(c.roster.tick)
	for {
		c.wake.ParkUntil(next)
		if c.isClosing() {
			break
		}
		start := c.env.Now()
		if start < next {
			continue
		}
		c.tick()
		next = c.roster.next(start, c.env.Now())
	}
	c.err = c.finish()
	c.o.Event(Closed{Err: c.err})
	c.done.Set()
}

func (c *Committer) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// tick brings what changed into the page cache, then writes out and levels what is due.
func (c *Committer) tick() {
	c.beginTick()
	c.writeWindows()
	for _, p := range c.takeDue((*roster).dueWriteouts) {
		c.writeoutStep(p)
	}
	c.flushDevices()
	for _, p := range c.takeDue((*roster).dueLevels) {
		c.levelStep(p)
	}
	c.endTick()
}

func (c *Committer) beginTick() {
	c.tickNo++
	c.now = TickDone{Start: c.env.Now()}
}

// writeWindows primes what has to be primed, all of it before any window, and then writes the window of every
// dirty partition.
func (c *Committer) writeWindows() {
	c.mu.Lock()
	c.keys = c.roster.takeTouched(c.keys[:0], c.now.Start, c.force)
	c.mu.Unlock()
	for _, k := range c.keys {
		c.touchStep(k)
	}
	c.mu.Lock()
	c.dirty = c.roster.takeDirty(c.dirty[:0])
	c.mu.Unlock()
	for _, d := range c.dirty {
		c.primeStep(d)
	}
	c.flushDevices()
	for _, d := range c.dirty {
		c.windowStep(d)
	}
}

// takeDue asks the roster which partitions are due now.
func (c *Committer) takeDue(ask func(r *roster, dst []*part, now env.Instant, all bool) []*part) []*part {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = ask(&c.roster, c.due[:0], now, c.force)
	return c.due
}

func (c *Committer) endTick() {
	end := c.env.Now()
	c.mu.Lock()
	c.roster.turn = (c.roster.turn + 1) % c.roster.turns
	late := c.roster.late(end)
	c.mu.Unlock()
	clear(c.dirty) // or what was forgotten stays in memory until another tick is as large
	clear(c.due)

	done := c.now
	done.Took = end.Sub(done.Start)
	c.o.Event(done)
	if done.Took > c.roster.tick && done.Primed == 0 && c.tickLate.allow(end) {
		c.o.Event(TickLate{Partitions: done.Partitions, Took: done.Took, Interval: c.roster.tick})
	}
	if late.Partitions > 0 && c.writesLate.allow(end) {
		c.o.Event(late)
	}
}

// finishRounds is how often Close tries again what failed.
const finishRounds = 3

// finish does what Close promises.
func (c *Committer) finish() error {
	c.force = true
	var failed error
	for range finishRounds {
		c.tick()
		if failed = c.now.Err; failed == nil && !c.anyDirty() {
			break
		}
	}
	left := c.leftovers()
	handles := c.stop()
	for _, f := range handles {
		f.Close()
	}
	if len(left) == 0 {
		return nil
	}
	err := errors.Join(failed, c.strandedErr(left))
	if err == nil {
		err = errors.New("acks went on")
	}
	return fmt.Errorf("committer: stopped with partitions %v not exact on the disk: %w", left, err)
}

func (c *Committer) anyDirty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.roster.dirty) > 0
}

// leftovers lists the partitions whose files are not exact, in order.
func (c *Committer) leftovers() []Key {
	c.mu.Lock()
	var left []Key
	var unwritten []Key
	for _, d := range c.roster.dirty {
		unwritten = append(unwritten, d.key)
	}
	for k, p := range c.roster.parts { // order-free: sorted below
		switch {
		case p.stranded:
			unwritten = append(unwritten, k)
		case p.unsynced || p.distrust || p.levelable():
			left = append(left, k)
		}
	}
	c.mu.Unlock()
	sortKeys(unwritten)
	for _, k := range unwritten {
		if _, _, alive := c.o.State(k, c.ahead[:0]); alive {
			left = append(left, k)
		}
	}
	sortKeys(left)
	return compactKeys(left)
}

func (c *Committer) strandedErr(keys []Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		if p := c.roster.parts[k]; p != nil && p.stranded {
			return ErrStranded
		}
	}
	return nil
}

// stop takes no more marks and returns the descriptors to close.
func (c *Committer) stop() (handles []vfs.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	keys := make([]Key, 0, len(c.roster.parts))
	for k := range c.roster.parts { // order-free: sorted below
		keys = append(keys, k)
	}
	sortKeys(keys)
	for _, k := range keys {
		if f := c.roster.release(c.roster.parts[k]); f != nil {
			handles = append(handles, f)
		}
	}
	return handles
}

func sortKeys(keys []Key) {
	sort.Slice(keys, func(i, j int) bool {
		if keys[i].Topic != keys[j].Topic {
			return keys[i].Topic < keys[j].Topic
		}
		return keys[i].Partition < keys[j].Partition
	})
}

func compactKeys(keys []Key) []Key {
	kept := keys[:0]
	for i, k := range keys {
		if i == 0 || k != keys[i-1] {
			kept = append(kept, k)
		}
	}
	return kept
}

// begin takes k in hand for a snapshot. It reports false when a forget of k is under way.
func (c *Committer) begin(k Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgetting[k] > 0 {
		return false
	}
	c.hand = hand{key: k, on: true}
	return true
}

// proceed goes from the snapshot to writing. It reports false when the partition was forgotten in between, so
// that the snapshot must not be written.
func (c *Committer) proceed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hand.writing = !c.hand.forgotten
	return c.hand.writing
}

// end puts the partition out of hand.
func (c *Committer) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hand = hand{}
	for _, w := range c.waiting {
		w.Unpark()
	}
	c.waiting = c.waiting[:0]
}

// withPart calls do with p in hand, unless p was forgotten.
func (c *Committer) withPart(p *part, do func(p *part)) {
	if !c.take(p) {
		return
	}
	defer c.end()
	c.count(p)
	do(p)
}

// take takes p in hand to write it. It reports false when there is nothing to write any more.
func (c *Committer) take(p *part) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgetting[p.key] > 0 || p.gone || p.stranded {
		return false
	}
	c.hand = hand{key: p.key, on: true, writing: true}
	return true
}

// snapshot reads the live state of k. The offsets are valid until the next snapshot.
func (c *Committer) snapshot(k Key) (s State, identity uint64, ok bool) {
	s, identity, ok = c.o.State(k, c.ahead[:0])
	if cap(s.Ahead) > cap(c.ahead) {
		c.ahead = s.Ahead[:0]
	}
	return s, identity, ok
}

func (c *Committer) current(d dirtied) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.roster.current(d)
}

// change applies a change of what others read of p.
func (c *Committer) change(p *part, apply func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	apply()
	c.roster.settle(p)
}

// again makes k dirty for the next tick.
func (c *Committer) again(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster.mark(k)
}

// strand stops all writes for p until its forget.
func (c *Committer) strand(p *part) {
	c.mu.Lock()
	first, f := c.roster.strand(p)
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
	if first {
		c.o.Event(Stranded{Key: p.key})
	}
}

// count counts p among the partitions of the tick, once.
func (c *Committer) count(p *part) {
	if p.ticked != c.tickNo {
		p.ticked = c.tickNo
		c.now.Partitions++
	}
}

// fail counts a failed operation of the tick.
func (c *Committer) fail(err error) {
	c.now.Failed++
	if c.now.Err == nil {
		c.now.Err = err
	}
}
