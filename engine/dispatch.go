package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"narad/env"
	"narad/record"
	"narad/segment"
)

// Bounds of one partition commit, of how many run at a time, of what waits for them, and of the pauses after a failure.
const (
	commitRecords  = 1024
	commitBytes    = 4 << 20
	commitSlots    = 16
	commitHung     = time.Second
	commitRetryMin = 50 * time.Millisecond
	commitRetryMax = time.Second
	lingerRecords  = 64 // a destination with as many goes at once, if somebody waits for it
	lingerMax      = 50 * time.Millisecond
	busyHeld       = 8                     // as many records in queues, and
	busyCommits    = 8                     // as many that began
	busyWithin     = 10 * time.Millisecond // in so short a time
	busyLinger     = 15 * time.Millisecond // make every commit wait for so long
	deafFor        = 10 * time.Millisecond
	quietRecords   = 256 // and if nobody does
	quietBytes     = 512 << 10
	quietSlots     = 2                      // commits at a time beside which one that nobody waits for begins
	quietPatience  = 250 * time.Millisecond // then it does so anyway
	windowMin      = 4096
	windowMax      = 65536
	windowBytes    = 64 << 20
	lookAhead      = 16 // windows past the checkpoint
	walRetry       = time.Second
)

// dispatcher moves accepted messages from the ingress log to their destinations. One task reads every durable record, in
// order, and puts it into the queue of its destination; up to commitSlots tasks commit, one batch of one destination
// each. The checkpoint is the lowest sequence number that is not done (WAL-19); which records above it are done is known
// in memory only (WAL-15), so a crash commits those again (WAL-16).
//
// A destination that fails, hangs or is full takes nothing more into its queue. Its records are passed over, so that those of
// others go on, up to lookAhead windows past the checkpoint; they are read again, in order, when it has room. A record in
// flight is never sent a second time: only when its commit has ended in a failure.
//
// Under load records gather (WAL-23). A topic is awaited while consumers are parked at it, and for a moment after one found
// nothing. While other commits run, a destination of an awaited topic with few records waits until the oldest is twice as old as
// its commits take, at most lingerMax; while many commits begin, each waits for busyLinger.
//
// When nobody waits, a commit is in no hurry, and each file that syncs beside the ingress log makes the syncs of that slower: the
// first record after a pause goes at once, then they gather for lingerMax, and few commits run at a time. While all that is queued
// gathers like that, run does not even look at what becomes durable, but every deafFor.
type dispatcher struct {
	engine *Engine
	wake   *env.Waiter // unparks run: records became durable, a commit ended, or stop
	tasks  *env.Group
	deaf   atomic.Bool // run looks by itself before long, and what became durable does not hurry
	// discard reports that a record which fits no topic is never going to: its topic, or its incarnation of it, was deleted.
	// Nil: that is never known.
	discard func(record.Produce) bool

	mu       sync.Mutex // guards the fields below
	stopping bool
	lanes    map[destination]*lane
	all      []*lane
	waiting  []*lane                  // with records and no commit in flight
	flying   []*lane                  // with a commit in flight
	running  int                      // commits in flight that are not hung
	behind   int                      // lanes that have passed something over
	begun    [busyCommits]env.Instant // of the last commits, in a ring
	begins   int
	ended    env.Instant // of the last commit
	window   window
	held     int // records in queues, those of hung lanes excepted
	bytes    int // of these

	intake intake // used by run only
}

func newDispatcher(e *Engine) *dispatcher {
	return &dispatcher{
		engine: e, wake: e.env.NewWaiter(), tasks: e.env.NewGroup(), lanes: make(map[destination]*lane), ended: always,
	}
}

func (d *dispatcher) start() {
	stored, _ := d.engine.wal.Checkpoint()
	d.window.base = stored
	d.intake.open(d.engine.wal, stored)
	d.tasks.Go("dispatcher", d.run)
}

// kick makes the dispatcher look for work. It never blocks.
func (d *dispatcher) kick() { d.wake.Unpark() }

// durable says that records became durable.
func (d *dispatcher) durable() {
	if !d.deaf.Load() {
		d.kick()
	}
}

// stop ends all tasks; commits in flight end first, what is queued stays in the ingress log.
func (d *dispatcher) stop() {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	d.kick()
	d.tasks.Wait()
	d.storeCheckpoint()
}

func (d *dispatcher) run() {
	defer d.intake.close()
	failedUntil := always
	for !d.stopped() {
		more := false
		if d.now() >= failedUntil {
			var err error
			more, err = d.read()
			if cerr := d.storeCheckpoint(); err == nil {
				err = cerr
			}
			if err != nil { // only this stops everybody: a destination that fails stops itself
				d.engine.emit(DispatchStalled{err})
				failedUntil = d.now().Add(walRetry)
			}
		}
		d.findHung()
		d.launch()
		if !more {
			d.wake.ParkUntil(d.nextDeadline(failedUntil))
			d.deaf.Store(false)
		}
	}
}

func (d *dispatcher) now() env.Instant { return d.engine.env.Now() }

func (d *dispatcher) stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping
}

// limits returns how many records may be queued in all and for one destination. It needs d.mu.
func (d *dispatcher) limits() (window, each int) {
	if n := d.engine.opts.DispatchWindow; n > 0 {
		return n, max(1, n/4)
	}
	window = min(max(64*len(d.all), windowMin), windowMax)
	each = max(windowMin, window/4)
	return max(window, 4*each), each
}

// hasRoom reports whether further records may be read. It needs d.mu.
func (d *dispatcher) hasRoom() bool {
	window, _ := d.limits()
	return !d.stopping && d.held < window && d.bytes < windowBytes
}

// laneTo needs d.mu.
func (d *dispatcher) laneTo(key Key, dest destination) *lane {
	l := d.lanes[dest]
	if l == nil {
		l = &lane{key: key, dest: dest}
		d.lanes[dest] = l
		d.all = append(d.all, l)
	}
	return l
}

// change applies fn to a lane and keeps the totals and the list of those that wait for a commit. It needs d.mu.
func (d *dispatcher) change(l *lane, fn func()) {
	records, bytes := l.load()
	behind := len(l.skipped) > 0
	fn()
	switch {
	case !behind && len(l.skipped) > 0:
		d.behind++
		d.engine.emit(DestinationBehind{l.key, l.skipped[0]})
	case behind && len(l.skipped) == 0:
		d.behind--
		d.engine.emit(DestinationCaughtUp{l.key})
	}
	r, b := l.load()
	d.held += r - records
	d.bytes += b - bytes
	if l.flying == 0 && l.size() > 0 && !l.listed {
		l.listed = true
		d.waiting = append(d.waiting, l)
		l.dest.gathers(1)
	}
}

// unlist says that a lane is not among the waiting ones any more. It needs d.mu.
func (l *lane) unlist() {
	l.listed = false
	l.dest.gathers(-1)
}

// dueAt returns when the next commit of a waiting lane may begin, as far as is known now. It needs d.mu.
func (d *dispatcher) dueAt(l *lane, now env.Instant) env.Instant {
	switch {
	case d.running >= commitSlots:
		return env.Forever // a commit that ends wakes run
	case l.failing:
		return l.retryAt
	case !l.dest.awaited(now):
		return d.quietDueAt(l, now)
	case l.size() >= lingerRecords:
		return always
	case d.isBusy(now):
		return l.oldest().Add(busyLinger)
	case d.running == 0:
		return always
	}
	return l.oldest().Add(min(lingerMax, 2*l.latency))
}

// noteBegin counts a commit that begins. It needs d.mu.
func (d *dispatcher) noteBegin(now env.Instant) {
	d.begun[d.begins%busyCommits] = now
	d.begins++
}

// isBusy reports whether many commits began just now, and many records wait: a client that sends, takes and acks one message after
// the other does the first as well, and must not be held up. It needs d.mu.
func (d *dispatcher) isBusy(now env.Instant) bool {
	first := d.begun[d.begins%busyCommits] // of the last busyCommits
	return d.held >= busyHeld && d.begins >= busyCommits && now < first.Add(busyWithin)
}

// quietDueAt is dueAt for a lane that nobody waits for. It needs d.mu.
func (d *dispatcher) quietDueAt(l *lane, now env.Instant) env.Instant {
	switch {
	case d.running >= quietSlots:
		return l.oldest().Add(quietPatience)
	case l.size() >= quietRecords, l.bytes >= quietBytes, d.running == 0 && now >= d.ended.Add(lingerMax):
		return always
	case len(l.skipped) > 0, !d.hasRoom():
		return always // no more can gather
	}
	return l.oldest().Add(lingerMax)
}

// take begins a commit of the lane that has waited longest among those that are due, nil when there is none.
func (d *dispatcher) take() *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping || d.running >= commitSlots {
		return nil
	}
	now := d.now()
	for i, l := range d.waiting {
		if now >= d.dueAt(l, now) {
			d.waiting = slices.Delete(d.waiting, i, i+1)
			l.unlist()
			l.begin(now)
			d.noteBegin(now)
			d.running++
			d.flying = append(d.flying, l)
			return l
		}
	}
	return nil
}

// launch starts a task for each commit that may begin now.
func (d *dispatcher) launch() {
	for l := d.take(); l != nil; l = d.take() {
		d.tasks.Go("dispatch", func() { d.work(l) })
	}
}

// work commits for a lane, and then for whichever is due.
func (d *dispatcher) work(l *lane) {
	var records []segment.Record
	for ; l != nil; l = d.take() {
		records = d.batch(l, records[:0])
		base, err := l.dest.deliver(records)
		d.landed(l, base, err)
		clear(records)
	}
}

// batch writes the records in flight to dst.
func (d *dispatcher) batch(l *lane, dst []segment.Record) []segment.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range l.inFlight() {
		dst = append(dst, segment.Record{Key: r.key, Payload: r.payload})
	}
	return dst
}

// landed deals with the end of a commit.
func (d *dispatcher) landed(l *lane, base int64, err error) {
	d.mu.Lock()
	now := d.now()
	d.flying = slices.DeleteFunc(d.flying, func(f *lane) bool { return f == l })
	if !l.hung {
		d.running--
	}
	d.ended = now
	d.change(l, func() {
		n := l.flying
		l.hung = false
		if err == nil {
			d.committed(l, base, now.Sub(l.started))
			l.pop(n)
			l.succeeded(now.Sub(l.started))
		} else {
			d.engine.emit(DispatchFailed{l.key, n, err, l.retired})
			l.failed(now)
		}
		l.flying = 0
	})
	if l.retired {
		d.forget(l)
	}
	d.mu.Unlock()
	d.kick()
}

// committed marks the records in flight as done. It needs d.mu.
func (d *dispatcher) committed(l *lane, base int64, took time.Duration) {
	detailed, bytes := d.engine.detailed(), int64(0)
	for i, r := range l.inFlight() {
		d.window.done(r.seq)
		bytes += int64(len(r.key) + len(r.payload))
		if detailed {
			d.engine.emit(Dispatched{l.key, r.seq, base + int64(i)})
		}
	}
	if d.engine.listening() {
		d.engine.emit(Stored{l.key, l.flying, bytes, took})
	}
}

// findHung takes their slots from commits that have run for too long; what is queued behind them makes room for others.
func (d *dispatcher) findHung() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, l := range d.flying {
		if l.hung || now < l.started.Add(commitHung) {
			continue
		}
		d.change(l, func() {
			l.giveBack(l.flying)
			l.hung = true
		})
		d.running--
		d.engine.emit(DestinationHung{l.key, l.flying})
	}
}

// nextDeadline returns when run has something to do although nobody wakes it. Nobody does for an idle dispatcher.
func (d *dispatcher) nextDeadline(failedUntil env.Instant) env.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, now := env.Forever, d.now()
	if now < failedUntil {
		next = failedUntil
	}
	if d.intake.heldCount() > 0 {
		next = min(next, d.intake.retryHeld)
	}
	for _, l := range d.flying {
		if !l.hung {
			next = min(next, l.started.Add(commitHung))
		}
	}
	hurry := len(d.waiting) == 0
	for _, l := range d.waiting {
		next = min(next, d.dueAt(l, now))
		hurry = hurry || l.dest.awaited(now)
	}
	if !hurry {
		d.deaf.Store(true)
		next = min(next, now.Add(deafFor))
	}
	return next
}

// checkpoint returns the lowest sequence number that is not done.
func (d *dispatcher) checkpoint() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.window.base
}

// storeCheckpoint tells the ingress log how far everything is done.
func (d *dispatcher) storeCheckpoint() error {
	seq := d.checkpoint()
	if stored, _ := d.engine.wal.Checkpoint(); seq == stored {
		return nil
	}
	if err := d.engine.wal.SetCheckpoint(seq); err != nil {
		return err
	}
	d.engine.emit(Checkpointed{seq})
	return nil
}

// retire forgets the destinations of a topic that was deleted: what waits for them is discarded, so that it does not hold the
// checkpoint back. A commit in flight ends first, whichever way.
func (d *dispatcher) retire(t *topic) {
	d.mu.Lock()
	t.undispatched = true
	for _, p := range t.partitions() {
		if l := d.lanes[p]; l != nil {
			l.retired = true
			d.forget(l)
		}
	}
	d.mu.Unlock()
	d.kick()
}

// forget discards what a retired lane has left, and the lane itself unless a commit is in flight. It needs d.mu.
func (d *dispatcher) forget(l *lane) {
	d.change(l, func() {
		l.giveBack(l.flying)
		for _, seq := range l.skipped {
			d.drop(seq)
		}
		l.skipped = nil
	})
	if l.flying > 0 {
		return
	}
	if l.listed {
		d.waiting = slices.DeleteFunc(d.waiting, func(w *lane) bool { return w == l })
		l.unlist()
	}
	d.all = slices.DeleteFunc(d.all, func(a *lane) bool { return a == l })
	delete(d.lanes, l.dest)
}

// drop marks a record as done that will never be dispatched. It needs d.mu.
func (d *dispatcher) drop(seq uint64) {
	d.window.done(seq)
	d.engine.emit(RecordDiscarded{seq})
}

// awaited implements destination.
func (p *partition) awaited(now env.Instant) bool { return p.topic.awaited(now) }

func (t *topic) awaited(now env.Instant) bool {
	return t.waiting.present.Load() || now < env.Instant(t.wantedUntil.Load())
}

// gathers implements destination.
func (p *partition) gathers(by int) { p.topic.gathering.Add(int32(by)) }

// wantedFor is how long a topic counts as awaited after a consume has found nothing.
const wantedFor = 100 * time.Millisecond

// want notes that a consume found nothing. What has gathered for the topic is committed without further delay.
func (t *topic) want() {
	now := t.engine.env.Now()
	until := env.Instant(t.wantedUntil.Swap(int64(now.Add(wantedFor))))
	if d := t.engine.dispatcher; d.deaf.Load() || now >= until && t.gathering.Load() > 0 {
		d.kick()
	}
}

// accepted tells the dispatcher of records that became durable and that somebody waits for.
func (t *topic) accepted() {
	if d := t.engine.dispatcher; d.deaf.Load() && t.awaited(t.engine.env.Now()) {
		d.kick()
	}
}

// deliver stores records in the partition log. A log whose failure is lasting is dropped, so that the next attempt recovers it from
// disk.
func (p *partition) deliver(records []segment.Record) (int64, error) {
	log, err := p.openLog()
	if err != nil {
		return 0, err
	}
	base, err := log.Commit(records)
	if err != nil && log.Err() != nil {
		p.dropLog(log)
	}
	return base, err
}
