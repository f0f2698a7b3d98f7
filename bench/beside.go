package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"narad/bench/report"
	"narad/env"
	"narad/vfs"
	"narad/wal"
)

// producers append to an ingress log of their own as fast as it lets them, as an owner's produces do.
type producers struct {
	log     *wal.Log
	payload []byte
	writers int
}

func startProducers(e *env.Env, root vfs.Dir, payload, writers int) (*producers, error) {
	if err := root.Mkdir("log"); err != nil {
		return nil, err
	}
	dir, err := root.OpenDir("log")
	if err != nil {
		return nil, err
	}
	l, err := wal.Open(e, dir, wal.Options{}) // takes dir over
	return &producers{log: l, payload: make([]byte, payload), writers: writers}, err
}

// slice is what the producers did in a stretch of time.
type slice struct {
	count   int64
	seconds float64
	latency [][]int64
}

func (s *slice) add(t slice) {
	s.count += t.count
	s.seconds += t.seconds
	s.latency = append(s.latency, t.latency...)
}

func (s slice) rate() float64 { return float64(s.count) / s.seconds }

func (s slice) distribution() report.Latency { return report.Distribution(s.latency...) }

// run lets all writers append for d.
func (p *producers) run(d time.Duration) (s slice, err error) {
	s.latency = make([][]int64, p.writers)
	errs := make([]error, p.writers)
	var stop atomic.Bool
	var group sync.WaitGroup
	begin := time.Now()
	for w := range p.writers {
		group.Go(func() {
			for !stop.Load() {
				start := time.Now()
				if _, errs[w] = p.log.Append(p.payload); errs[w] != nil {
					return
				}
				s.latency[w] = append(s.latency[w], int64(time.Since(start)))
			}
		})
	}
	time.Sleep(d)
	stop.Store(true)
	group.Wait()
	s.seconds = time.Since(begin).Seconds()
	for w := range p.writers {
		s.count += int64(len(s.latency[w]))
		if errs[w] != nil {
			return s, errs[w]
		}
	}
	return s, p.log.SetCheckpoint(p.log.Next())
}

func (p *producers) close() error { return p.log.Close() }
