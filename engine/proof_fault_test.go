package engine

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/inflight"
	"narad/sim"
	"narad/vfs"
	"narad/wal"
)

// tapFS tells of every file call of a process before it goes to the disk of the machine.
type tapFS struct {
	fs  vfs.FS
	tap func(op sim.Op, path string)
}

func (s tapFS) OpenRoot(path string, create bool) (vfs.Dir, error) {
	op := sim.OpOpen
	if create {
		op = sim.OpCreate
	}
	s.tap(op, path)
	d, err := s.fs.OpenRoot(path, create)
	if err != nil {
		return nil, err
	}
	return &tapDir{d, path, s.tap}, nil
}

type tapDir struct {
	vfs.Dir
	path string
	tap  func(op sim.Op, path string)
}

func (d *tapDir) at(name string) string { return d.path + "/" + name }

func (d *tapDir) OpenDir(name string) (vfs.Dir, error) {
	d.tap(sim.OpOpen, d.at(name))
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &tapDir{sub, d.at(name), d.tap}, nil
}

func (d *tapDir) Mkdir(name string) error {
	d.tap(sim.OpCreate, d.at(name))
	return d.Dir.Mkdir(name)
}

func (d *tapDir) file(f vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &tapFile{f, d.at(name), d.tap}, nil
}

func (d *tapDir) Create(name string) (vfs.File, error) {
	d.tap(sim.OpCreate, d.at(name))
	f, err := d.Dir.Create(name)
	return d.file(f, err, name)
}

func (d *tapDir) Open(name string) (vfs.File, error) {
	d.tap(sim.OpOpen, d.at(name))
	f, err := d.Dir.Open(name)
	return d.file(f, err, name)
}

func (d *tapDir) Stat(name string) (vfs.Info, error) {
	d.tap(sim.OpOpen, d.at(name))
	return d.Dir.Stat(name)
}

func (d *tapDir) List() ([]vfs.Info, error) {
	d.tap(sim.OpOpen, d.path)
	return d.Dir.List()
}

func (d *tapDir) Rename(source, target string) error {
	d.tap(sim.OpRename, d.at(target))
	return d.Dir.Rename(source, target)
}

func (d *tapDir) Remove(name string) error {
	d.tap(sim.OpRemove, d.at(name))
	return d.Dir.Remove(name)
}

func (d *tapDir) Sync() error {
	d.tap(sim.OpSyncDir, d.path)
	return d.Dir.Sync()
}

func (d *tapDir) Lock(name string) (io.Closer, error) {
	d.tap(sim.OpCreate, d.at(name))
	return d.Dir.Lock(name)
}

type tapFile struct {
	vfs.File
	path string
	tap  func(op sim.Op, path string)
}

func (f *tapFile) ReadAt(p []byte, off int64) (int, error) {
	f.tap(sim.OpRead, f.path)
	return f.File.ReadAt(p, off)
}

func (f *tapFile) WriteAt(p []byte, off int64) (int, error) {
	f.tap(sim.OpWrite, f.path)
	return f.File.WriteAt(p, off)
}

func (f *tapFile) Sync() error {
	f.tap(sim.OpSync, f.path)
	return f.File.Sync()
}

func (f *tapFile) Truncate(size int64) error {
	f.tap(sim.OpResize, f.path)
	return f.File.Truncate(size)
}

func (f *tapFile) Preallocate(size int64) error {
	f.tap(sim.OpResize, f.path)
	return f.File.Preallocate(size)
}

// applicable lists the faults that each kind of call can fail with.
var applicable = map[sim.Op][]sim.Fault{
	sim.OpRead:    {sim.FailEIO},
	sim.OpWrite:   {sim.FailEIO, sim.ShortWrite, sim.FailNoSpace},
	sim.OpSync:    {sim.SyncLost, sim.SyncVisible},
	sim.OpSyncDir: {sim.FailEIO},
	sim.OpOpen:    {sim.FailEIO},
	sim.OpCreate:  {sim.FailEIO, sim.FailNoSpace},
	sim.OpRename:  {sim.FailEIO, sim.FailNoSpace},
	sim.OpRemove:  {sim.FailEIO},
	sim.OpResize:  {sim.FailEIO, sim.FailNoSpace},
}

// trial is one telling of the story with one thing that breaks.
type trial struct {
	at      int // the call that fails, counted from 1; 0: none
	fault   sim.Fault
	lasting bool // so do all later calls of its kind, until the repair
	ending  int  // how the last life but one ends: 0 process crash, 1 power loss, 2 graceful stop

	w      *sim.World
	m      *sim.Machine
	ledger *ledger
	calls  []call // what was called
	kind   sim.Op // of the call that failed; sim.OpAny before
	healed bool
	next   int
	must   map[place]bool // acks that have to be known to the next life
	errs   []error

	// of the life under way
	env    *env.Env
	engine *Engine
	sticky error // the ingress log has failed
	leases []*Delivery
}

type call struct {
	op   sim.Op
	path string
}

func (t *trial) String() string {
	how := "once"
	if t.lasting {
		how = "lasting"
	}
	what := "no call"
	if t.at > 0 && t.at <= len(t.calls) {
		what = fmt.Sprintf("call %d, %v %s", t.at, t.calls[t.at-1].op, t.calls[t.at-1].path)
	}
	return fmt.Sprintf("%s fails with %v, %s; ending %d", what, t.fault, how, t.ending)
}

// tap counts a call and breaks it when its turn has come.
func (t *trial) tap(op sim.Op, path string) {
	if t.healed {
		return
	}
	t.calls = append(t.calls, call{op, path})
	switch {
	case len(t.calls) == t.at:
		t.kind = op
	case t.kind == sim.OpAny || !t.lasting || t.kind != op:
		return
	}
	t.m.ArmFault(t.fault, op, "", 1)
}

func (t *trial) repair() {
	t.healed = true
	t.m.ClearFaults()
}

func (t *trial) failf(format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

// ioError reports whether an error says that the disk failed.
func ioError(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) }

// expect notes an error that no caller should see. I/O errors are fine while something is broken.
func (t *trial) expect(what string, err error, fine ...error) {
	if err == nil || slices.ContainsFunc(fine, func(f error) bool { return errors.Is(err, f) }) {
		return
	}
	if !t.healed && t.kind != sim.OpAny && ioError(err) {
		return
	}
	t.failf("%s: %w", what, err)
}

// boot runs fn in a process. It reports whether the engine opened.
func (t *trial) boot(fn func()) (opened bool) {
	var err error
	p := t.m.Boot(func(e *env.Env) {
		t.env, t.sticky, t.leases = e, nil, nil
		t.ledger.now = e.Now
		o := proofOptions()
		o.Env = e.WithFS(tapFS{e.FS(), t.tap})
		o.Listener = t.hear
		if t.engine, err = Open("data", o); err == nil {
			opened = true
			fn()
		}
	})
	if !p.WaitUntil(t.w.Now().Add(5 * time.Minute)) {
		t.failf("the process does not end; opened: %v", opened)
		t.m.CrashProcess()
	}
	t.expect("open", err)
	return opened
}

func (t *trial) hear(v Event) {
	if s, ok := v.(ShardOpened); ok {
		for at := range t.must { // order-free: each on its own
			if at.Key == s.Key && !isSettled(s.State, at.Offset) {
				t.failf("%v was acked, and is not settled any more after a restart", at)
			}
		}
	}
	t.ledger.hear(v)
}

func (t *trial) create() {
	_, err := t.engine.CreateTopic(TopicSpec{Name: "t", Partitions: 2, Visibility: 20 * time.Second})
	t.expect("create topic", err, ErrTopicExists)
}

// produce sends n messages one by one, in turn for both partitions.
func (t *trial) produce(n, size int) {
	for range n {
		id := fmt.Sprintf("m%02d", t.next)
		t.next++
		t.ledger.trying([]string{id})
		err := t.engine.Produce(Message{Topic: "t", Partition: int32(t.next % 2), Payload: payload(id, size)})
		t.ledger.produced([]string{id}, err)
		var failed *wal.FailedError
		switch {
		case t.sticky != nil && !errors.Is(err, ErrProduceFailed):
			t.failf("produce after the ingress log has failed: %v", err) // WAL-11
		case err == nil || errors.Is(err, ErrTopicNotFound) && t.kind != sim.OpAny: // its creation failed
		case !errors.Is(err, ErrProduceFailed) || !ioError(err):
			t.failf("produce: %w", err)
		case errors.As(err, &failed):
			t.sticky = err
		}
	}
}

// consume leases up to n messages.
func (t *trial) consume(n int, wait time.Duration) {
	for range n {
		d, err := t.engine.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: wait})
		if errors.Is(err, ErrTopicNotFound) && t.kind != sim.OpAny && !t.healed {
			return
		}
		t.expect("consume", err, ErrEmpty)
		if err != nil {
			continue
		}
		at := place{Key{"t", d.Partition}, d.Offset}
		if _, again := t.ledger.settled[at]; again {
			t.failf("%v was acked and is delivered again", at)
		}
		if err := t.ledger.consumed(d); err != nil {
			t.failf("%w", err)
		}
		t.leases = append(t.leases, d)
	}
}

// settle acks the leases with these numbers and gives the others back.
func (t *trial) settle(which ...int) {
	for i, d := range t.leases {
		answer := t.engine.Nack
		if slices.Contains(which, i) {
			answer = t.engine.Ack
		}
		if err := answer("t", d.Handle); err != nil {
			t.failf("settle: %w", err)
		}
	}
	t.leases = nil
}

// close stops gracefully and reports whether that succeeded.
func (t *trial) close() {
	err := t.engine.Close()
	t.expect("close", err)
	if err == nil {
		t.ledger.confirm()
	}
	t.promised(err == nil || !t.lasting)
}

// promised notes which acks the next life has to know: all that had time to be stored, if the disk was well enough to take
// them, and else those that a graceful stop covered.
func (t *trial) promised(well bool) {
	if t.must = maps.Clone(t.ledger.firm); well {
		t.must = t.ledger.promise().cached
	}
}

// start boots until the engine opens. A disk that stays broken is repaired then.
func (t *trial) start(fn func()) {
	for attempt := 0; ; attempt++ {
		if t.boot(fn) || len(t.errs) > 0 {
			return
		}
		switch {
		case t.healed:
			t.failf("the engine does not open on a disk that was repaired")
			return
		case t.lasting && attempt == 1:
			t.repair()
		case !t.lasting && attempt == 1:
			t.failf("one call failed, and the engine does not open a second time")
			return
		}
	}
}

// story is told by a task of the outer world.
func (t *trial) story() {
	t.start(func() {
		t.create()
		t.produce(3, 30)
		t.produce(3, 1500)
		t.consume(5, time.Second)
		t.settle(0, 2, 3)
		t.env.Sleep(1500 * time.Millisecond)
		t.produce(3, 1400)
		t.consume(2, time.Second)
		t.settle(1)
		t.env.Sleep(400 * time.Millisecond)
		t.close()
	})
	t.start(func() {
		t.create() // in case that it failed
		t.produce(2, 1300)
		t.consume(4, time.Second)
		t.settle(1, 2)
		t.env.Sleep(32 * time.Second)
		t.produce(2, 700)
		t.consume(2, time.Second)
		t.settle(0)
		t.env.Sleep(500 * time.Millisecond)
		t.repair()
		t.env.Sleep(5 * time.Second)
		t.recovered()
		t.promised(true)
		switch t.ending {
		case 0:
			t.m.CrashProcess()
		case 1:
			t.must = t.ledger.promise().firm
			t.m.PowerLoss()
		default:
			t.close()
		}
	})
	t.repair()
	t.must = nil // the last life checks by itself
	p := t.ledger.promise()
	if t.ending == 1 {
		p = p.afterPowerLoss()
	}
	t.start(func() { t.finish(p) })
}

// recovered requires that the engine, whatever broke before the disk was repaired, serves all it accepted, without a restart;
// but for producing when the ingress log has latched, and for creating topics when the metastore has.
func (t *trial) recovered() {
	if _, err := t.engine.Topic("t"); err != nil {
		if t.kind == sim.OpAny {
			t.failf("the topic is gone: %w", err)
		}
		return
	}
	t.consume(40, 200*time.Millisecond)
	there := map[string]bool{}
	for at, id := range t.ledger.holds { // order-free: into a set
		if _, acked := t.ledger.settled[at]; acked {
			there[id] = true
		}
	}
	for _, d := range t.leases {
		id, _ := idOf(d.Payload)
		there[id] = true
	}
	for id, ok := range t.ledger.accepted { // order-free: each on its own
		if ok && !there[id] {
			t.failf("%s was accepted, and is not delivered although the disk is well again", id)
		}
	}
	t.settle(0, 2, 3)
	t.env.Sleep(firmWindow + 100*time.Millisecond)
}

// finish holds the last life against everything promised, and has it serve to the end.
func (t *trial) finish(p promise) {
	t.create()
	f := newFound()
	for n := range int32(2) {
		f.drain(t.engine, Key{"t", n})
	}
	stats, err := t.engine.Stats("t")
	if err != nil {
		t.failf("stats: %w", err)
		return
	}
	for end := t.env.Now().Add(5 * time.Second); t.env.Now() < end; t.env.Sleep(5 * time.Millisecond) {
		if stored, _ := t.engine.wal.Checkpoint(); stored == t.engine.wal.Next() {
			break
		}
	}
	for n := range int32(2) {
		f.drain(t.engine, Key{"t", n})
		k := Key{"t", n}
		f.hw[k], f.ends[k] = stats[n].HighWatermark, stats[n].HighWatermark
		tp, _ := t.engine.topic("t")
		f.seeded[k] = tp.partitions()[n].shard.Snapshot(nil)
	}
	if err := f.check(p); err != nil {
		t.failf("the last life: %w", err)
	}
	handles := t.acked(f)
	for i, err := range t.engine.AckBatch("t", handles, OpAck) {
		if err != nil {
			t.failf("ack of %v: %w", handles[i], err)
		}
	}
	t.produce(1, 100)
	t.consume(1, 10*time.Second)
	if len(t.leases) != 1 {
		t.failf("a message produced at the end is not delivered")
	}
	t.settle(0)
	if err := t.engine.Close(); err != nil {
		t.failf("the last close: %w", err)
	}
}

// acked returns the handles of everything that finish has leased.
func (t *trial) acked(f *found) (list []inflight.Handle) {
	tp, _ := t.engine.topic("t")
	for _, at := range sortedPlaces(f.delivered) {
		p := tp.partitions()[at.Key.Partition]
		if lease, ok := p.shard.Lookup(at.Offset); ok {
			list = append(list, inflight.Handle{Partition: at.Key.Partition, Offset: at.Offset, Nonce: lease.Nonce})
		} else {
			t.failf("%v was delivered and is not leased", at)
		}
	}
	return list
}

// run tells the story. Its error is everything that should not have been.
func (t *trial) run() error {
	t.w = sim.New(sim.Options{Seed: uint64(t.at)})
	latency := sim.DefaultLatency()
	latency.Stalls = 0
	t.m = t.w.Machine("n1", sim.MachineConfig{Latency: latency})
	t.ledger = newLedger()
	t.w.Go("story", func() {
		t.story()
		t.w.Stop()
	})
	err := t.w.Run(time.Hour)
	return errors.Join(append(t.errs, err)...)
}

// WAL-10, WAL-11, WAL-12, LOG-25, COM-62, FAIL-19, FAIL-20, INV-02, INV-10: whichever file call of a story fails, in
// whichever way, once or from then on, nothing panics or hangs, callers see what is documented, a disk that was repaired
// opens, everything with a 202 is delivered, and no ack that had time to be stored comes back.
func TestProofEveryCallFails(t *testing.T) {
	whole := &trial{}
	require.NoError(t, whole.run())
	byKind := map[string]int{}
	combinations, failures := 0, 0
	for at := 1; at <= len(whole.calls); at++ {
		for _, fault := range applicable[whole.calls[at-1].op] {
			for mode, lasting := range []bool{false, true} {
				for ending := range 3 {
					if !long() && ending != (at+int(fault)+mode)%3 {
						continue
					}
					trial := &trial{at: at, fault: fault, lasting: lasting, ending: ending}
					err := trial.run()
					combinations++
					byKind[fmt.Sprintf("%v: %v", whole.calls[at-1].op, fault)]++
					if err != nil {
						if failures++; failures <= 10 {
							t.Errorf("%v:\n%v", trial, err)
						}
					}
				}
			}
		}
	}
	t.Logf("%d calls, %d combinations of call, fault and duration, %d failed: %v", len(whole.calls), combinations, failures, byKind)
}

// LOG-25: a commit that fails closes its log, at whatever instant of the first consume, which is opening the same partition; the
// consume finds that nothing is there yet, or the failure of the disk.
func TestProofFailedCommitMeetsFirstConsume(t *testing.T) {
	met := 0
	for seed := range uint64(pick(300, 5000)) {
		w := sim.New(sim.Options{Seed: seed})
		m := w.Machine("n1", sim.MachineConfig{})
		m.Boot(func(e *env.Env) {
			defer w.Stop()
			engine, err := Open("data", Options{Env: e, Listener: func(v Event) {
				if _, ok := v.(DispatchFailed); ok {
					met++
				}
			}})
			if err == nil {
				_, err = engine.CreateTopic(one(0))
			}
			m.SetFaults(sim.FaultPlan{SyncLost: 1_000_000, Only: named(".log")})
			if err == nil {
				err = engine.Produce(Message{Topic: "t", Payload: []byte("m")})
			}
			e.Sleep(time.Duration(seed%100) * 100 * time.Microsecond)
			for end := e.Now().Add(200 * time.Millisecond); err == nil && e.Now() < end; e.Sleep(time.Millisecond) {
				if _, err = engine.Consume(&ConsumeRequest{Topic: "t"}); errors.Is(err, ErrEmpty) || ioError(err) {
					err = nil
				}
			}
			if err != nil {
				w.Fail(fmt.Errorf("seed %d: %w", seed, err))
			}
		})
		require.NoError(t, w.Run(time.Minute))
	}
	require.Positive(t, met)
}
