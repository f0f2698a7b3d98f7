package engine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
	"narad/wal"
)

// What the proofs (proof_*_test.go) share: lives of an engine on a disk that outlives them, a ledger of what an engine
// promised meanwhile, and the recovery of a disk, held against it.

// long reports whether the proofs run at full depth.
func long() bool { return os.Getenv("NARAD_LONG") == "1" }

// pick returns the normal or the long extent of a proof.
func pick(normal, deep int) int {
	if long() {
		return deep
	}
	return normal
}

// proofOptions make segments roll after a few messages.
func proofOptions() Options { return Options{SegmentBytes: 4096, WALSegmentBytes: 4096} }

// payload is a message with an id of its own, as long as wanted.
func payload(id string, size int) []byte {
	return []byte(id + ":" + strings.Repeat(string(rune('a'+len(id)%26)), max(0, size-len(id)-1)))
}

// idOf returns the id of a message, and an error when its contents are not what payload made.
func idOf(body []byte) (string, error) {
	id, fill, ok := strings.Cut(string(body), ":")
	if !ok || strings.Trim(fill, string(rune('a'+len(id)%26))) != "" {
		return "", fmt.Errorf("a message came back altered: %.40q", body)
	}
	return id, nil
}

// place is where a copy of a message is stored.
type place struct {
	Key    Key
	Offset int64
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d@%d", p.Key.Topic, p.Key.Partition, p.Offset)
}

// sortedPlaces is for messages that read the same each time.
func sortedPlaces[V any](m map[place]V) []place {
	return slices.SortedFunc(maps.Keys(m), func(a, b place) int { return strings.Compare(a.String(), b.String()) })
}

// ledger is what the engines of a story promised to their callers. It is a listener.
type ledger struct {
	mu       sync.Mutex // guards the fields below; in the real world several tasks report
	version  int        // grows with every entry
	now      func() env.Instant
	accepted map[string]bool       // produced with a nil error
	tried    map[string]bool       // given to Produce
	holds    map[place]string      // what consumers got from there
	settled  map[place]env.Instant // when it was acked
	firm     map[place]bool        // a graceful stop covers the ack
	hw       map[Key]int64
	loud     []Event // failures and losses that were reported
}

func newLedger() *ledger {
	return &ledger{accepted: map[string]bool{}, tried: map[string]bool{}, holds: map[place]string{},
		settled: map[place]env.Instant{}, firm: map[place]bool{}, hw: map[Key]int64{}}
}

func (l *ledger) hear(v Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v := v.(type) {
	case Settled:
		l.version++
		l.settled[place{v.Key, v.Offset}] = l.now()
	case ShardOpened:
		l.reseed(v)
	case Log:
		if c, ok := v.Event.(segment.Committed); ok && c.Next > l.hw[v.Key] {
			l.version++
			l.hw[v.Key] = c.Next
		}
		if _, ok := v.Event.(segment.Poisoned); ok {
			l.loud = append(l.loud, v)
		}
	case CorruptSkipped, DispatchFailed, DispatchStalled, RecordHeld, FrontierClamped:
		l.loud = append(l.loud, v)
	}
}

// reseed forgets the acks that the end of the life before undid, within its window. The others count from now on.
func (l *ledger) reseed(v ShardOpened) {
	l.version++
	for at := range l.settled { // order-free: each on its own
		if at.Key == v.Key && !l.firm[at] {
			if l.settled[at] = l.now(); !isSettled(v.State, at.Offset) {
				delete(l.settled, at)
			}
		}
	}
}

func isSettled(s inflight.State, offset int64) bool {
	return offset <= s.Committed || slices.Contains(s.Ahead, offset)
}

// confirm notes that a graceful stop covers all acks so far.
func (l *ledger) confirm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	for at := range l.settled { // order-free: each on its own
		l.firm[at] = true
	}
}

func (l *ledger) produced(ids []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	for _, id := range ids {
		l.accepted[id] = err == nil
	}
}

func (l *ledger) trying(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.tried[id] = true
	}
}

// consumed notes what a place holds. That never changes.
func (l *ledger) consumed(d *Delivery) error {
	id, err := idOf(d.Payload)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	at := place{Key{d.Topic, d.Partition}, d.Offset}
	if was, seen := l.holds[at]; seen && was != id {
		return fmt.Errorf("%v held %s and holds %s now", at, was, id)
	}
	if !l.tried[id] {
		return fmt.Errorf("%v holds %s, which nobody produced", at, id)
	}
	l.holds[at] = id
	return nil
}

// How long after its ack a message may come back: one tick after the death of the process, D + T after a power loss, each
// with the tick of the prime and some margin (REC-05, REC-06).
const (
	cacheWindow = 300 * time.Millisecond
	firmWindow  = 1400 * time.Millisecond
)

// promise is what a recovery has to live up to.
type promise struct {
	accepted []string
	tried    map[string]bool
	holds    map[place]string
	acked    map[place]bool // everything that may count as settled
	cached   map[place]bool // of these, what has to after the death of the process
	firm     map[place]bool // … and after a power loss
	stopped  map[place]bool // … because a graceful stop covers it
	hw       map[Key]int64
}

// promise returns what is promised at this moment.
func (l *ledger) promise() promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := promise{tried: l.tried, holds: maps.Clone(l.holds), acked: map[place]bool{}, cached: map[place]bool{},
		firm: maps.Clone(l.firm), stopped: maps.Clone(l.firm), hw: maps.Clone(l.hw)}
	for id, ok := range l.accepted { // order-free: sorted below
		if ok {
			p.accepted = append(p.accepted, id)
		}
	}
	sort.Strings(p.accepted)
	var now env.Instant
	if l.now != nil {
		now = l.now()
	}
	for at, when := range l.settled { // order-free: into sets
		p.acked[at] = true
		if l.firm[at] || now.Sub(when) > cacheWindow {
			p.cached[at] = true
		}
		if now.Sub(when) > firmWindow {
			p.firm[at] = true
		}
	}
	return p
}

// afterPowerLoss is what is left of a promise when the machine loses power.
func (p promise) afterPowerLoss() promise {
	p.cached = p.firm
	return p
}

// life runs fn as the only program of a machine in a world of its own, with files on d, and kills the program at the end of
// fn. Its error is what fn failed with, or a panic, a deadlock or a hang of the engine.
func life(seed uint64, d *disk.Disk, hook disk.Hook, fn func(e *env.Env) error) error {
	w := sim.New(sim.Options{Seed: seed})
	m := w.Machine("n1", sim.MachineConfig{})
	var hooks []disk.Hook
	if hook != nil {
		hooks = append(hooks, hook)
	}
	m.Boot(func(e *env.Env) {
		err := fn(e.WithFS(disk.FS(d, hooks...)))
		d.ProcessCrash()
		if err != nil {
			w.Fail(err)
		}
		w.Stop()
	})
	return w.Run(time.Hour)
}

// found is what opening a data directory led to.
type found struct {
	err       error // of Open
	clean     bool
	topics    []Topic
	hw        map[Key]int64 // recovered
	ends      map[Key]int64 // after everything accepted was dispatched
	seeded    map[Key]inflight.State
	reports   map[Key]bool // consumer state with a slot or file that counted as damaged
	delivered map[place]string
	skipped   map[place]error // CorruptSkipped
	refused   map[Key]error   // partitions that cannot be consumed
	altered   error           // a message that is not as it was produced
	loud      []Event         // reports of what should not be
	aside     []Event         // directories that belong to no topic
	cut       []Event         // ends of files that were taken for unfinished writes
}

func newFound() *found {
	return &found{hw: map[Key]int64{}, ends: map[Key]int64{}, seeded: map[Key]inflight.State{}, reports: map[Key]bool{}, delivered: map[place]string{},
		skipped: map[place]error{}, refused: map[Key]error{}}
}

func (f *found) hear(v Event) {
	switch v := v.(type) {
	case Opened:
		f.clean = v.Clean
	case ShardOpened:
		f.seeded[v.Key] = v.State
		f.reports[v.Key] = v.Report.OffsetErr != nil || v.Report.Slots.Exists && (v.Report.Slots.Slot[0].Err != nil || v.Report.Slots.Slot[1].Err != nil)
	case CorruptSkipped:
		f.skipped[place{v.Key, v.Offset}] = v.Err
	case Log:
		switch r := v.Event.(type) {
		case segment.Recovered:
			f.hw[v.Key], f.ends[v.Key] = r.Next, r.Next
			if r.TailCut > 0 {
				f.cut = append(f.cut, v)
			}
		case segment.Committed:
			f.ends[v.Key] = r.Next
		}
	case WAL:
		if _, ok := v.Event.(wal.TailCut); ok {
			f.cut = append(f.cut, v)
		}
	case FrontierClamped, FrontierJumped, RecordHeld, DispatchStalled, DispatchFailed:
		f.loud = append(f.loud, v)
	case SetAside:
		f.aside = append(f.aside, v)
	}
}

// explore opens the data directory, waits until everything accepted is dispatched, and consumes all there is, without an ack.
// The engine stays open.
func explore(e *env.Env, o Options) (*found, *Engine) {
	f := newFound()
	var mu sync.Mutex
	o.Env = e
	o.Listener = func(v Event) {
		mu.Lock()
		defer mu.Unlock()
		f.hear(v)
	}
	engine, err := Open("data", o)
	if err != nil {
		f.err = err
		return f, nil
	}
	for end := e.Now().Add(5 * time.Second); e.Now() < end; e.Sleep(5 * time.Millisecond) {
		if stored, _ := engine.wal.Checkpoint(); stored == engine.wal.Next() {
			break
		}
	}
	f.topics = engine.Topics("", 100)
	for _, t := range f.topics {
		for p := range t.Partitions {
			f.drain(engine, Key{t.Name, p})
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return f, engine
}

func (f *found) drain(e *Engine, k Key) {
	for {
		list, err := e.ConsumeBatch(&ConsumeRequest{Topic: k.Topic, Partition: k.Partition}, MaxConsumeBatch)
		if err != nil {
			if !errors.Is(err, ErrEmpty) {
				f.refused[k] = err
			}
			return
		}
		for _, d := range list {
			id, err := idOf(d.Payload)
			if err != nil {
				f.altered = err
			}
			f.delivered[place{k, d.Offset}] = id
		}
	}
}

// lost returns the accepted messages that are neither delivered nor settled by an ack.
func (f *found) lost(p promise) (ids []string) {
	there := map[string]bool{}
	for at, id := range f.delivered { // order-free: into a set
		there[id] = true
		_ = at
	}
	for at := range p.acked { // order-free: into a set
		if s, ok := f.seeded[at.Key]; ok && isSettled(s, at.Offset) {
			there[p.holds[at]] = true
		}
	}
	for _, id := range p.accepted {
		if !there[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// unacked returns the places that count as settled and were never acked.
func (f *found) unacked(p promise) (list []place) {
	for k, s := range f.seeded { // order-free: sorted by the caller's use in messages only
		for o := int64(0); o < max(f.ends[k], s.Committed+1) && o < 1000; o++ {
			if at := (place{k, o}); isSettled(s, o) && !p.acked[at] {
				list = append(list, at)
			}
		}
	}
	return list
}

// returned returns the acked places that are delivered again although their window has passed.
func (f *found) returned(p promise) (list []place) {
	for _, at := range sortedPlaces(p.cached) {
		if _, again := f.delivered[at]; again {
			list = append(list, at)
		}
	}
	return list
}

// check holds a recovery from a crash against what was promised before: INV-02, INV-04, INV-08, INV-09, INV-11.
func (f *found) check(p promise) error {
	if f.err != nil {
		return fmt.Errorf("it does not open: %w", f.err)
	}
	var errs []error
	if ids := f.lost(p); len(ids) > 0 {
		errs = append(errs, fmt.Errorf("lost %v", ids))
	}
	if list := f.unacked(p); len(list) > 0 {
		errs = append(errs, fmt.Errorf("settled and never acked: %v", list))
	}
	if list := f.returned(p); len(list) > 0 {
		errs = append(errs, fmt.Errorf("acked long before and delivered again: %v", list))
	}
	for k, hw := range p.hw { // order-free: each on its own
		if _, opened := f.hw[k]; opened && f.hw[k] < hw {
			errs = append(errs, fmt.Errorf("%v: the high watermark was %d and is %d", k, hw, f.hw[k]))
		}
	}
	for _, at := range sortedPlaces(f.delivered) {
		id := f.delivered[at]
		if was, known := p.holds[at]; known && was != id {
			errs = append(errs, fmt.Errorf("%v held %s and holds %s", at, was, id))
		}
		if !p.tried[id] {
			errs = append(errs, fmt.Errorf("%v holds %s, which nobody produced", at, id))
		}
	}
	for _, at := range sortedPlaces(f.skipped) {
		errs = append(errs, fmt.Errorf("%v is unreadable: %w", at, f.skipped[at]))
	}
	for k, err := range f.refused { // order-free: each on its own
		errs = append(errs, fmt.Errorf("%v cannot be consumed: %w", k, err))
	}
	for _, v := range f.loud {
		errs = append(errs, fmt.Errorf("%T %+v", v, v))
	}
	return errors.Join(append(errs, f.altered)...)
}

// The story that the proofs about crashes and damage tell: one topic of two partitions, messages large enough to roll every
// kind of segment, acks in and out of order.

// teller drives one life of the story.
type teller struct {
	ledger *ledger
	env    *env.Env
	engine *Engine
	next   *int // number of the next message
	leases []*Delivery
}

func (s *teller) open() error {
	s.ledger.mu.Lock()
	s.ledger.now = s.env.Now
	s.ledger.mu.Unlock()
	o := s.options()
	var err error
	s.engine, err = Open("data", o)
	return err
}

func (s *teller) options() Options {
	o := proofOptions()
	o.Env, o.Listener = s.env, s.ledger.hear
	return o
}

// produce stores n messages in one batch, in turn for both partitions.
func (s *teller) produce(n, size int) error {
	var ids []string
	var batch []Message
	for range n {
		id := fmt.Sprintf("m%02d", *s.next)
		batch = append(batch, Message{Topic: "t", Partition: int32(*s.next % 2), Payload: payload(id, size)})
		ids = append(ids, id)
		*s.next++
	}
	s.ledger.trying(ids)
	err := s.engine.ProduceBatch("t", batch)
	s.ledger.produced(ids, err)
	return err
}

// consume leases n messages.
func (s *teller) consume(n int) error {
	for range n {
		d, err := s.engine.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 10 * time.Second})
		if err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		if err := s.ledger.consumed(d); err != nil {
			return err
		}
		s.leases = append(s.leases, d)
	}
	return nil
}

// ack settles the leases with these numbers, counted from the oldest that is left; the rest is given back.
func (s *teller) ack(which ...int) error {
	for i, d := range s.leases {
		settle := s.engine.Nack
		if slices.Contains(which, i) {
			settle = s.engine.Ack
		}
		if err := settle("t", d.Handle); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	s.leases = nil
	return nil
}

func (s *teller) sleep(d time.Duration) error {
	s.env.Sleep(d)
	return nil
}

func (s *teller) close() error {
	if err := s.engine.Close(); err != nil {
		return err
	}
	s.ledger.confirm()
	return nil
}

// lives are the parts of the story. Between two of them the process ends.
var lives = []func(s *teller) error{
	func(s *teller) error { // a new directory; ends with a graceful stop
		return first(
			s.open,
			func() error {
				_, err := s.engine.CreateTopic(TopicSpec{Name: "t", Partitions: 2, Visibility: 20 * time.Second})
				return err
			},
			func() error { return s.produce(2, 40) },
			func() error { return s.produce(2, 1500) },
			func() error { return s.consume(4) },
			func() error { return s.ack(0, 1, 3) },
			func() error { return s.sleep(450 * time.Millisecond) },
			func() error { return s.produce(3, 1400) },
			func() error { return s.consume(3) },
			func() error { return s.ack(0, 2) },
			func() error { return s.sleep(1600 * time.Millisecond) },
			func() error { return s.produce(1, 700) },
			func() error { return s.sleep(20 * time.Millisecond) },
			s.close,
		)
	},
	func(s *teller) error { // ends with a crash, acks parked above a gap
		return first(
			s.open,
			func() error { return s.produce(2, 1600) },
			func() error { return s.consume(4) },
			func() error { return s.ack(1, 2, 3) },
			func() error { return s.sleep(450 * time.Millisecond) },
			func() error { return s.produce(3, 300) }, // not dispatched any more
		)
	},
	func(s *teller) error { // starts from a crash, lives long enough for consumer.offset to be brought level
		return first(
			s.open,
			func() error { return s.produce(2, 60) },
			func() error { return s.consume(2) },
			func() error { return s.ack(0, 1) },
			func() error { return s.sleep(32 * time.Second) },
			func() error { return s.produce(3, 1300) },
			func() error { return s.consume(1) },
			func() error { return s.ack(0) },
			func() error { return s.sleep(150 * time.Millisecond) },
		)
	},
}

// first runs steps until one fails.
func first(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// tellLife tells one life of the story on a disk.
func tellLife(number int, d *disk.Disk, hook disk.Hook, l *ledger, next *int) error {
	return life(uint64(100+number), d, hook, func(e *env.Env) error {
		return lives[number](&teller{ledger: l, env: e, next: next})
	})
}

// reopen explores a copy of a disk.
func reopen(seed uint64, d *disk.Disk, hook disk.Hook) (f *found, err error) {
	err = life(seed, d, hook, func(e *env.Env) error {
		f, _ = explore(e, proofOptions())
		return nil
	})
	return f, err
}

// The story goes as it is told when nothing breaks, and what it says of itself is true of the disk it leaves.
func TestProofStory(t *testing.T) {
	d, l, next := disk.New(disk.Adversarial), newLedger(), 0
	for i := range lives {
		if err := tellLife(i, d, nil, l, &next); err != nil {
			t.Fatalf("life %d: %v", i, err)
		}
		f, err := reopen(1, d.Clone(), nil)
		if err == nil {
			err = f.check(l.promise())
		}
		if err != nil {
			t.Fatalf("after life %d: %v", i, err)
		}
	}
	files := map[string]int64{}
	walk(d, func(path string, size int64) { files[path] = size })
	for _, want := range []string{".wal", "/checkpoint", ".log", "/consumer.ahead", "/consumer.offset", "/topics.journal"} {
		n := 0
		for path := range files { // order-free: counting
			if strings.HasSuffix(path, want) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("the story leaves no %s: %v", want, files)
		}
	}
	t.Logf("%d messages, %v", next, files)
}

// walk tells of all files of a disk, in the order of their paths.
func walk(d *disk.Disk, tell func(path string, size int64)) {
	root, err := disk.FS(d).OpenRoot("data", false)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	walkDir(root, "data", tell)
}

func walkDir(dir vfs.Dir, at string, tell func(path string, size int64)) {
	entries, err := dir.List()
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if !e.Dir {
			tell(at+"/"+e.Name, e.Size)
			continue
		}
		sub, err := dir.OpenDir(e.Name)
		if err != nil {
			panic(err)
		}
		walkDir(sub, at+"/"+e.Name, tell)
		sub.Close()
	}
}
