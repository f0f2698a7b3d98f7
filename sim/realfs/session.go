package realfs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"narad/engine"
	"narad/inflight"
	"narad/sim/disk"
	"narad/sim/recorder"
	"narad/vfs"
)

// recordRoot is the directory of the record that stands for the data directory, wherever that is.
const recordRoot = "data"

// Session is one life: a real engine on a real directory, recorded. Its methods may be used by many goroutines.
type Session struct {
	engine *engine.Engine
	record *recorder.FS
	ledger *Ledger

	end  chan struct{} // closed when the life is over
	done sync.WaitGroup
}

// Lease is a message in the hand of a client.
type Lease struct {
	Topic   string
	Handle  inflight.Handle
	Message int
}

func (t Lease) key() engine.Key { return engine.Key{Topic: t.Topic, Partition: t.Handle.Partition} }

// Begin starts a life in dir, which must be empty or missing, from an image and its facts; a nil image is an empty disk of the
// given personality. Of the options the world and the listener are replaced.
func Begin(dir string, from *Image, p disk.Personality, o engine.Options) (*Session, error) {
	return BeginThrough(dir, from, p, o, nil)
}

// BeginThrough is Begin with a file system between the engine and the recorder: whoever tests the checks plants bugs there.
func BeginThrough(dir string, from *Image, p disk.Personality, o engine.Options, between func(vfs.FS) vfs.FS) (*Session, error) {
	d, l := disk.New(p), newLedger(newFacts(), true)
	if from != nil {
		d, l = from.disk.Clone(), newLedger(from.Facts.after(from.Crash), from.Crash == PowerLoss)
	}
	if err := Materialise(d, dir); err != nil {
		return nil, err
	}
	l.facts.Interval, l.facts.Longest, l.facts.Late, l.facts.Ticks = cmp.Or(o.CommitInterval, time.Second), 0, 0, nil
	s := &Session{ledger: l, end: make(chan struct{})}
	s.record = recorder.New(vfs.OS{}, d, func(string) string { return recordRoot })
	files := vfs.FS(s.record)
	if between != nil {
		files = between(files)
	}
	o.Env, o.Listener = l.world.WithFS(files), l.hear
	l.do(func(*Facts) { l.began = l.world.Now(); l.nap = 0 })
	var err error
	s.done.Go(s.watchSleep)
	if s.engine, err = engine.Open(dir, o); err != nil {
		s.over()
		return nil, violate("INV-11", "the engine does not open: %v", err)
	}
	return s, nil
}

// watchSleep measures how late this machine wakes whoever sleeps: ticks of the committer are as late.
func (s *Session) watchSleep() {
	for t := time.NewTimer(napLasts); ; t.Reset(napLasts) {
		select {
		case <-s.end:
			return
		case <-t.C:
		}
		s.ledger.do(func(*Facts) { s.ledger.slept(true) })
	}
}

func (s *Session) over() {
	close(s.end)
	s.done.Wait()
}

// OnChange has cut be called after changes of files, within the change, whenever pick says so of its number; and halfway through
// writes of several pages, where pick is asked as well.
func (s *Session) OnChange(pick func(n int) bool, cut func(*Cut)) {
	s.record.OnChange(func(n int) {
		if pick(n) {
			cut(&Cut{s.record.Record().Clone(), s.ledger.snapshot()})
		}
	})
	s.record.OnHalfway(pick, func(half *disk.Disk) { cut(&Cut{half, s.ledger.snapshot()}) })
}

// Cut returns what is on the disk and what is known at this instant.
func (s *Session) Cut() *Cut {
	// The ledger goes first with its promises, the record follows with what backs them; attempts in between are caught up with.
	before := s.ledger.snapshot()
	d := s.record.Cut()
	after := s.ledger.snapshot()
	return &Cut{d, before.withAttemptsOf(after)}
}

// Changes returns how many changes and syncs of files there were.
func (s *Session) Changes() int { return s.record.Changes() }

// CreateTopic creates a topic; the messages of a name that exists are taken as they are.
func (s *Session) CreateTopic(spec engine.TopicSpec) error {
	t, err := s.engine.CreateTopic(spec)
	if errors.Is(err, engine.ErrTopicExists) {
		t, err = s.engine.Topic(spec.Name)
	}
	if err != nil {
		return violate("INV-02", "topic %s is not created: %v", spec.Name, err)
	}
	s.ledger.do(func(f *Facts) { f.Topics[spec.Name] = int(t.Partitions) })
	return nil
}

// Produce sends messages of the given sizes, one alone or several as a batch.
func (s *Session) Produce(topic string, partition int32, sizes ...int) error {
	first := s.ledger.trying(topic, sizes)
	batch := make([]engine.Message, len(sizes))
	for i, size := range sizes {
		batch[i] = engine.Message{Topic: topic, Partition: partition, Key: key(first + i), Payload: payload(first+i, size)}
	}
	var err error
	if len(batch) == 1 {
		err = s.engine.Produce(batch[0])
	} else {
		err = s.engine.ProduceBatch(topic, batch)
	}
	if err != nil {
		return violate("INV-03", "a produce on a healthy disk fails: %v", err)
	}
	s.ledger.accepted(first, len(sizes))
	return nil
}

// Consume leases up to count messages; none within the wait is no error.
func (s *Session) Consume(topic string, partition int32, wait time.Duration, count int) (leases []Lease, err error) {
	ds, err := s.engine.ConsumeBatch(&engine.ConsumeRequest{Topic: topic, Partition: partition, Wait: wait}, count)
	if err != nil && !errors.Is(err, engine.ErrEmpty) {
		return nil, violate("INV-02", "a consume on a healthy disk fails: %v", err)
	}
	for _, d := range ds {
		id, err := s.ledger.delivered(d)
		if err != nil {
			return nil, err
		}
		leases = append(leases, Lease{topic, d.Handle, id})
	}
	return leases, nil
}

// Ack acknowledges; a lease that is gone is no error.
func (s *Session) Ack(t Lease) error {
	s.ledger.ackTried(t)
	err := s.engine.Ack(t.Topic, t.Handle)
	if err == nil {
		s.ledger.acked(t)
	}
	return settleError(t, err)
}

// Nack gives the message back.
func (s *Session) Nack(t Lease) error { return settleError(t, s.engine.Nack(t.Topic, t.Handle)) }

// Extend renews the lease.
func (s *Session) Extend(t Lease) error { return settleError(t, s.engine.Extend(t.Topic, t.Handle)) }

// AckStale acknowledges with a handle of an earlier life, which must be refused.
func (s *Session) AckStale(t Lease) error {
	err := s.engine.Ack(t.Topic, t.Handle)
	if err == nil {
		return violate("INV-06", "%s: handle %v of an earlier life was accepted", t.Topic, t.Handle)
	}
	return settleError(t, err)
}

func settleError(t Lease, err error) error {
	if err == nil || errors.Is(err, engine.ErrLeaseGone) {
		return nil
	}
	return violate("INV-06", "%s %v: %v", t.Topic, t.Handle, err)
}

// Stop ends the life gracefully and returns what it leaves.
func (s *Session) Stop() (*Cut, error) {
	err := s.engine.Close()
	s.over()
	if err != nil {
		return nil, violate("INV-10", "a graceful stop on a healthy disk fails: %v", err)
	}
	s.ledger.stopped()
	return s.Cut(), s.ledger.fault()
}

// Abandon ends the life without a word about its end; what was cut from it stays.
func (s *Session) Abandon() error {
	err := s.engine.Close()
	s.over()
	if err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	return s.ledger.fault()
}
