package bench

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"narad/committer"
	"narad/env"
	"narad/vfs"
)

// Design is a way to persist what is settled in partitions.
type Design struct {
	Name     string        `json:"name"`
	T        time.Duration `json:"t_ns"` // between ticks, which write changed partitions into the page cache
	D        time.Duration `json:"d_ns"` // between syncs of one partition
	Parallel int           `json:"parallel"`
	// Real is the committer of this module; its T follows from D. The others are models of it: the same writes and
	// syncs without its safety, to try what it does not offer.
	Real bool `json:"real"`
}

// The designs that are compared with each other.
var (
	twoCadences  = Design{Name: "two cadences", T: 100 * time.Millisecond, D: time.Second, Parallel: 1, Real: true}
	eachTick     = Design{Name: "sync each changed partition each tick", T: 100 * time.Millisecond, D: 100 * time.Millisecond, Parallel: 1, Real: true}
	parallelTick = Design{Name: "the same, 8 syncs at a time", T: 100 * time.Millisecond, D: 100 * time.Millisecond, Parallel: 8}
)

// persister is a running design.
type persister interface {
	Dirty(i int)
	Close() error
}

// start runs the design over the directories p0, p1, … below root.
func (d Design) start(e *env.Env, root vfs.Dir, m *meter) (persister, error) {
	if d.Real {
		return startCommitter(e, root, m, d)
	}
	return startModel(root, m, d)
}

// makePartitions makes the directories that designs write in.
func makePartitions(root vfs.Dir, n int) error {
	for i := range n {
		if err := root.Mkdir(partitionDir(i)); err != nil {
			return err
		}
	}
	return root.Sync()
}

func partitionDir(i int) string { return fmt.Sprintf("p%d", i) }

// real is the committer of this module.
type real struct{ *committer.Committer }

func startCommitter(e *env.Env, root vfs.Dir, m *meter, d Design) (persister, error) {
	c, err := committer.Start(e, committer.Options{
		Interval: d.D, Root: root, MaxOpen: 4096,
		Path: func(k committer.Key) string { return partitionDir(int(k.Partition)) },
		State: func(k committer.Key, _ []int64) (committer.State, uint64, bool) {
			return committer.State{Committed: m.snapshot(int(k.Partition))}, 1, true
		},
		Event: func(v committer.Event) {
			switch v := v.(type) {
			case committer.WindowWritten:
				m.windowWritten(int(v.Key.Partition))
			case committer.WrittenOut:
				m.writtenOut(int(v.Key.Partition), v.End.Sub(v.Start))
			case committer.TickDone:
				if v.Partitions > 0 {
					m.tickDone(v.Took)
				}
			}
		},
	})
	return real{c}, err
}

func (r real) Dirty(i int) { r.Committer.Dirty(committer.Key{Topic: "t", Partition: int32(i)}) }

// model writes one sector for each changed partition in each tick and syncs the file of a partition once in D, spread over
// the ticks, so many at a time.
type model struct {
	d     Design
	m     *meter
	files []vfs.File
	stop  chan struct{}
	done  chan error

	mu    sync.Mutex // guards dirty and marked
	dirty []int
	mark  []bool

	pending []bool // the task's own
	since   []time.Time
}

// windowBytes is what a small state takes in consumer.ahead.
const windowBytes = vfs.SectorSize

func startModel(root vfs.Dir, m *meter, d Design) (persister, error) {
	n := len(m.parts)
	s := &model{d: d, m: m, stop: make(chan struct{}), done: make(chan error, 1), mark: make([]bool, n), pending: make([]bool, n), since: make([]time.Time, n)}
	for i := range n {
		f, err := openWindow(root, partitionDir(i))
		if err != nil {
			s.closeFiles()
			return nil, err
		}
		s.files = append(s.files, f)
	}
	go func() { s.done <- s.run() }()
	return s, nil
}

// openWindow makes the file of a partition, durable as the committer's is before its first window.
func openWindow(root vfs.Dir, name string) (vfs.File, error) {
	d, err := root.OpenDir(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Create(committer.AheadFile)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(make([]byte, windowBytes), 0)
	if err = errors.Join(err, f.Sync(), d.Sync()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *model) Dirty(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mark[i] {
		s.mark[i] = true
		s.dirty = append(s.dirty, i)
	}
}

func (s *model) Close() error {
	close(s.stop)
	err := <-s.done
	s.closeFiles()
	return err
}

func (s *model) closeFiles() {
	for _, f := range s.files {
		f.Close()
	}
}

func (s *model) run() error {
	turns := max(1, int(s.d.D/s.d.T))
	for turn := 0; ; turn = (turn + 1) % turns {
		start := time.Now()
		worked, err := s.tick(turn, turns)
		if err != nil {
			return err
		}
		if worked {
			s.m.tickDone(time.Since(start))
		}
		select {
		case <-s.stop:
			return nil
		case <-time.After(s.d.T - time.Since(start)):
		}
	}
}

func (s *model) tick(turn, turns int) (worked bool, err error) {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = nil
	for _, i := range dirty {
		s.mark[i] = false
	}
	s.mu.Unlock()
	block := make([]byte, windowBytes)
	for _, i := range dirty {
		block[0] = byte(s.m.snapshot(i))
		if _, err := s.files[i].WriteAt(block, 0); err != nil {
			return false, err
		}
		s.m.windowWritten(i)
		if !s.pending[i] {
			s.pending[i], s.since[i] = true, time.Now()
		}
	}
	var due []int
	for i, p := range s.pending {
		if p && (i%turns == turn || time.Since(s.since[i]) >= s.d.D) {
			s.pending[i] = false
			due = append(due, i)
		}
	}
	return len(dirty)+len(due) > 0, s.syncAll(due)
}

func (s *model) syncAll(due []int) error {
	next := make(chan int, len(due))
	for _, i := range due {
		next <- i
	}
	close(next)
	failed := make(chan error, s.d.Parallel)
	for range s.d.Parallel {
		go func() {
			for i := range next {
				start := time.Now()
				if err := s.files[i].Sync(); err != nil {
					failed <- err
					return
				}
				s.m.writtenOut(i, time.Since(start))
			}
			failed <- nil
		}()
	}
	var err error
	for range s.d.Parallel {
		err = errors.Join(err, <-failed)
	}
	return err
}
