package wal

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim"
	"narad/sim/disk"
)

// shadow is what the outer world knows about a log that dies and comes back.
type shadow struct {
	world   *sim.World
	acked   map[uint64]string // what Append returned for, by sequence number
	next    uint64            // one beyond the last of them
	stored  uint64            // checkpoint that survives the process
	durable uint64            // checkpoint that survives a power failure
	wanted  uint64            // last checkpoint asked for
	power   bool              // there was a power failure since the log was last open

	prepare  bool
	prepared int // segments that were prepared when they were needed
	recycled int
	unlucky  int // preparations that failed
	appends  int
	deaths   int
	failures int
}

func (s *shadow) failf(format string, args ...any) { s.world.Fail(fmt.Errorf(format, args...)) }

func (s *shadow) see(v Event) {
	switch v := v.(type) {
	case CheckpointStored:
		if v.Err == nil {
			s.stored = v.Seq
		}
	case CheckpointSynced:
		if v.Err == nil {
			s.durable, s.stored = v.Seq, max(s.stored, v.Seq)
		} else {
			s.stored = s.durable // the page cache may have gone back (rule D4)
		}
	case SegmentRolled:
		if v.Prepared {
			s.prepared++
		}
	case SegmentPrepared:
		if v.Err != nil {
			s.unlucky++
		} else if v.Recycled {
			s.recycled++
		}
	case SegmentRemoved:
		if v.Next > s.durable { // WAL-19
			s.failf("records up to %d removed, the durable checkpoint is %d", v.Next, s.durable)
		}
	case Recovered:
		least := s.stored
		if s.power {
			least = s.durable
		}
		if v.Checkpoint < least || v.Checkpoint > s.wanted || v.Lowered { // WAL-17, WAL-18
			s.failf("recovered checkpoint %d, expected %d … %d (%+v)", v.Checkpoint, least, s.wanted, v)
		}
		if v.Next < s.next { // WAL-03
			s.failf("recovered up to %d, record %d was acknowledged or found before", v.Next, s.next-1)
		}
		s.next = v.Next
		s.stored, s.durable, s.power = v.Checkpoint, v.Checkpoint, false
	}
}

// serve is a process: a log, writers, and a reader that moves the checkpoint.
func (s *shadow) serve(e *env.Env) {
	dir, err := e.FS().OpenRoot("wal", true)
	if err != nil {
		return
	}
	l, err := Open(e, dir, Options{SegmentBytes: 20_000, BatchBytes: 8_000, IdleRollBytes: 3000, CheckpointSync: 20 * time.Millisecond, Preallocate: s.prepare, Event: s.see})
	if err != nil {
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			s.failf("a log that saw no damage does not open: %v", err)
		}
		s.stored = s.durable // perhaps the sync of the checkpoint failed
		return
	}
	tasks := e.NewGroup()
	for range 4 {
		tasks.Go("writer", func() { s.write(e, l) })
	}
	tasks.Go("reader", func() { s.read(e, l) })
	tasks.Wait()
	l.Close()
}

func (s *shadow) write(e *env.Env, l *Log) {
	w := s.world
	for l.Err() == nil {
		var payloads [][]byte
		for range 1 + w.Choose(3) {
			s.appends++
			p := bytes.Repeat([]byte(fmt.Sprintf("%d.", s.appends)), 1+w.Choose(400))
			payloads = append(payloads, p)
		}
		first, err := l.Append(payloads...)
		if err == nil {
			for i, p := range payloads {
				s.ack(first+uint64(i), string(p))
			}
		} else {
			s.failures++
		}
		e.Sleep(w.Duration(0, 3*time.Millisecond))
	}
}

func (s *shadow) ack(seq uint64, payload string) {
	if _, ok := s.acked[seq]; ok {
		s.failf("record %d was acknowledged twice", seq)
	}
	s.acked[seq] = payload
	s.next = max(s.next, seq+1)
}

func (s *shadow) read(e *env.Env, l *Log) {
	stored, _ := l.Checkpoint()
	r := l.NewReader(stored)
	defer r.Close()
	for l.Err() == nil {
		seq, p, ok, err := r.Next()
		if err != nil {
			var corrupt *CorruptError
			if errors.As(err, &corrupt) {
				s.failf("record %d: %v", seq, err)
			}
			return
		}
		if !ok {
			if s.world.Choose(3) == 0 {
				s.store(l, r.pos)
			}
			e.Sleep(s.world.Duration(0, 5*time.Millisecond))
			continue
		}
		if want, ok := s.acked[seq]; ok && want != string(p) {
			s.failf("record %d is not what was acknowledged", seq)
		}
		if s.world.Choose(5) == 0 {
			s.store(l, seq+1)
		}
	}
}

func (s *shadow) store(l *Log, seq uint64) {
	s.wanted = max(s.wanted, seq)
	l.SetCheckpoint(seq)
}

// life runs a log through crashes and failing calls for some virtual seconds.
func life(seed uint64, length time.Duration) (*shadow, *sim.World, error) {
	w := sim.New(sim.Options{Seed: seed})
	s := &shadow{world: w, acked: map[uint64]string{}, next: 1, stored: 1, durable: 1, wanted: 1, prepare: seed%4 < 2}
	config := sim.MachineConfig{Personality: disk.Personality(seed % 2), Writeback: 50_000, Evict: 10_000}
	if seed%3 > 0 {
		config.Faults = sim.FaultPlan{WriteEIO: 500, ShortWrite: 500, NoSpace: 500, SyncLost: 1000, SyncVisible: 1000, SyncDirEIO: 2000, MetaEIO: 1000}
	}
	m := w.Machine("m", config)
	m.OnCrash = func(kind sim.CrashKind, _ disk.Report) { s.power = s.power || kind != sim.ProcessCrash }
	e := w.Env()
	w.Go("supervisor", func() {
		for {
			kind := sim.CrashKind(w.Choose(2))
			m.ArmCrash(kind, 1+w.Choose([]int{20, 200, 2000}[w.Choose(3)]))
			m.Boot(s.serve).Wait()
			m.Disarm()
			s.deaths++
			e.Sleep(w.Duration(0, time.Millisecond))
		}
	})
	w.Go("end", func() {
		e.Sleep(length)
		w.Stop()
	})
	err := w.Run(time.Hour)
	return s, w, err
}

// WAL-02, WAL-10, WAL-17, WAL-18, WAL-19, INV-03: lives full of crashes and failing calls, with whatever
// interleaving the simulator draws; the same seed gives the same life.
func TestSimulatedLives(t *testing.T) {
	seeds := depth(40, 4000)
	lives := make([]*shadow, seeds)
	errs := make([]error, seeds)
	hashes := make([]uint64, seeds)
	sim.RunParallel(seeds, func(i int) {
		s, w, err := life(uint64(i), 2*time.Second)
		lives[i], errs[i], hashes[i] = s, err, w.Hash()
	})
	acked, deaths, failures := 0, 0, 0
	prepared, recycled, unlucky := 0, 0, 0
	for i, s := range lives {
		assert.NoError(t, errs[i], "seed %d", i)
		acked += len(s.acked)
		deaths += s.deaths
		failures += s.failures
		prepared += s.prepared
		recycled += s.recycled
		unlucky += s.unlucky
	}
	require.Greater(t, acked, 20*seeds)
	require.Greater(t, deaths, 5*seeds)
	require.Greater(t, failures, 0)
	require.Greater(t, prepared, seeds)
	require.Greater(t, recycled, seeds/4)
	require.Greater(t, unlucky, 0)
	t.Logf("%d records acknowledged, %d appends failed, %d deaths; %d prepared segments used, %d recycled, %d preparations failed",
		acked, failures, deaths, prepared, recycled, unlucky)
	_, again, err := life(7, 2*time.Second)
	require.NoError(t, err)
	require.Equal(t, hashes[7], again.Hash())
}
