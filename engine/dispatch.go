package engine

import (
	"fmt"
	"sync"
	"time"

	"narad/env"
	"narad/record"
	"narad/segment"
	"narad/wal"
)

// Bounds of one partition commit, of what waits for one, and of the pauses after a failure.
const (
	commitRecords  = 1024
	commitBytes    = 4 << 20
	windowBytes    = 64 << 20
	commitRetryMin = 50 * time.Millisecond
	commitRetryMax = time.Second
	walRetry       = time.Second
)

// dispatcher moves accepted messages from the ingress log to their partitions. One task reads every durable
// record once, in order, into a queue per destination; a destination with work has a task of its own with
// one commit in flight. The checkpoint is the lowest sequence number that is not committed (WAL-19); which
// records above it are committed is known in memory only (WAL-15), so a crash commits those again (WAL-16).
type dispatcher struct {
	engine *Engine
	wake   *env.Waiter // unparks run: records became durable, a commit ended, or stop
	tasks  *env.Group

	mu           sync.Mutex // guards the fields below
	stopping     bool
	destinations map[Key]*destination
	all          []*destination
	window       window
	bytes        int // of the messages in the queues
}

// destination is a partition that messages are dispatched to, in the order of their sequence numbers.
type destination struct {
	partition *partition
	wake      *env.Waiter // interrupts a pause between attempts
	queue     []pending   // guarded by dispatcher.mu
	running   bool        // guarded by dispatcher.mu
}

// pending is a message between its 202 and its commit. The bytes are its own.
type pending struct {
	seq          uint64
	key, payload []byte
}

func (r pending) size() int { return len(r.key) + len(r.payload) }

func newDispatcher(e *Engine) *dispatcher {
	return &dispatcher{engine: e, wake: e.env.NewWaiter(), tasks: e.env.NewGroup(), destinations: make(map[Key]*destination)}
}

func (d *dispatcher) start() {
	stored, _ := d.engine.wal.Checkpoint()
	d.window.base = stored
	d.tasks.Go("dispatcher", d.run)
}

// kick makes the dispatcher look for work. It never blocks.
func (d *dispatcher) kick() { d.wake.Unpark() }

// stop ends all tasks; commits in flight end first, what is queued stays in the ingress log.
func (d *dispatcher) stop() {
	d.mu.Lock()
	d.stopping = true
	for _, dest := range d.all {
		dest.wake.Unpark()
	}
	d.mu.Unlock()
	d.kick()
	d.tasks.Wait()
	d.storeCheckpoint()
}

func (d *dispatcher) run() {
	reader := d.engine.wal.NewReader(d.window.base)
	defer reader.Close()
	for !d.stopped() {
		err := d.fill(reader)
		if cerr := d.storeCheckpoint(); err == nil {
			err = cerr
		}
		if err != nil {
			d.engine.emit(DispatchStalled{err})
			d.wake.ParkUntil(d.engine.env.Now().Add(walRetry)) // reading or checkpointing failed: nothing else can go on
			continue
		}
		d.wake.Park()
	}
}

func (d *dispatcher) stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping
}

// fill queues durable records until there is none or the window is full.
func (d *dispatcher) fill(reader *wal.Reader) error {
	for d.hasRoom() {
		seq, payload, ok, err := reader.Next()
		if err != nil || !ok {
			return err
		}
		if err := d.accept(seq, payload); err != nil {
			reader.Seek(seq)
			return err
		}
	}
	return nil
}

func (d *dispatcher) hasRoom() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.stopping && d.window.size() < d.engine.opts.DispatchWindow && d.bytes < windowBytes
}

// accept queues one record. A record that cannot be placed stops the dispatcher rather than being dropped:
// it got a 202.
func (d *dispatcher) accept(seq uint64, payload []byte) error {
	p, err := record.ParseProduce(payload)
	if err != nil {
		return fmt.Errorf("engine: ingress record %d: %w", seq, err)
	}
	t, err := d.engine.topic(p.Topic)
	if err != nil {
		return fmt.Errorf("engine: ingress record %d: %w", seq, err)
	}
	if p.Incarnation != t.info.ID || p.Partition < 0 || int(p.Partition) >= len(t.partitions) {
		return fmt.Errorf("engine: ingress record %d is for partition %d of incarnation %s, topic %s is %s with %d partitions",
			seq, p.Partition, p.Incarnation, p.Topic, t.info.ID, len(t.partitions))
	}
	own := make([]byte, 0, len(p.Key)+len(p.Payload)) // the reader reuses its buffer
	own = append(append(own, p.Key...), p.Payload...)
	rec := pending{seq: seq, key: own[:len(p.Key):len(p.Key)], payload: own[len(p.Key):]}
	d.enqueue(t.partitions[p.Partition], rec)
	return nil
}

func (d *dispatcher) enqueue(p *partition, rec pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.window.add(rec.seq)
	d.bytes += rec.size()
	dest := d.destinations[p.key]
	if dest == nil {
		dest = &destination{partition: p, wake: d.engine.env.NewWaiter()}
		d.destinations[p.key] = dest
		d.all = append(d.all, dest)
	}
	dest.queue = append(dest.queue, rec)
	if !dest.running {
		dest.running = true
		d.tasks.Go("dispatch", func() { d.drain(dest) })
	}
}

// drain commits a destination's queue until it is empty or the dispatcher stops. A failed commit is tried
// again for ever: the message got a 202 (WAL-27).
func (d *dispatcher) drain(dest *destination) {
	var records []segment.Record
	pause := commitRetryMin
	for {
		batch := d.next(dest)
		if batch == nil {
			return
		}
		records = records[:0]
		for _, r := range batch {
			records = append(records, segment.Record{Key: r.key, Payload: r.payload})
		}
		base, err := d.commit(dest.partition, records)
		if err == nil {
			pause = commitRetryMin
			d.done(dest, batch, base)
			continue
		}
		d.engine.emit(DispatchFailed{dest.partition.key, len(batch), err})
		dest.wake.ParkUntil(d.engine.env.Now().Add(pause))
		pause = min(2*pause, commitRetryMax)
	}
}

// next returns the head of the queue, as much as one commit takes, or nil when the task shall end.
func (d *dispatcher) next(dest *destination) []pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping || len(dest.queue) == 0 {
		dest.running = false
		return nil
	}
	n, size := 0, 0
	for n < len(dest.queue) && n < commitRecords && (n == 0 || size < commitBytes) {
		size += dest.queue[n].size()
		n++
	}
	return dest.queue[:n]
}

// commit stores records in the partition log. When it returns nil they are fsynced, read back and visible
// (LOG-05). A log whose failure is lasting is dropped, so that the next attempt recovers it from disk.
func (d *dispatcher) commit(p *partition, records []segment.Record) (int64, error) {
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

// done takes committed records out of the queue and out of the window.
func (d *dispatcher) done(dest *destination, batch []pending, base int64) {
	if d.engine.listening() {
		for i, r := range batch {
			d.engine.emit(Dispatched{dest.partition.key, r.seq, base + int64(i)})
		}
	}
	d.mu.Lock()
	for i := range batch {
		d.window.done(batch[i].seq)
		d.bytes -= batch[i].size()
		batch[i] = pending{} // the queue's array must not keep what is committed
	}
	dest.queue = dest.queue[len(batch):]
	d.mu.Unlock()
	d.kick()
}

// storeCheckpoint tells the ingress log how far everything is committed.
func (d *dispatcher) storeCheckpoint() error {
	d.mu.Lock()
	seq := d.window.base
	d.mu.Unlock()
	if stored, _ := d.engine.wal.Checkpoint(); seq == stored {
		return nil
	}
	if err := d.engine.wal.SetCheckpoint(seq); err != nil {
		return err
	}
	d.engine.emit(Checkpointed{seq})
	return nil
}

// window is the run of sequence numbers from the lowest one that is not committed to the highest one read.
type window struct {
	base      uint64 // lowest not committed: the checkpoint
	committed []bool // of base, base+1, …
	head      int    // index of base in committed
}

func (w *window) size() int { return len(w.committed) - w.head }

func (w *window) add(seq uint64) {
	if seq != w.base+uint64(w.size()) {
		panic(fmt.Sprintf("engine: ingress record %d follows %d", seq, w.base+uint64(w.size())-1))
	}
	if w.head > 0 && w.head >= len(w.committed)/2 { // reclaim the front, amortised
		w.committed = w.committed[:copy(w.committed, w.committed[w.head:])]
		w.head = 0
	}
	w.committed = append(w.committed, false)
}

func (w *window) done(seq uint64) {
	w.committed[w.head+int(seq-w.base)] = true
	for w.head < len(w.committed) && w.committed[w.head] {
		w.head++
		w.base++
	}
}
