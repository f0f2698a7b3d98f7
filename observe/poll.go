package observe

import (
	"context"
	"sync/atomic"
	"time"

	"narad/engine"
)

// What the loops keep to (narad-facts 3).
const (
	pollEvery   = 5 * time.Second
	sourceLimit = 2 * time.Second
	walkEvery   = 30 * time.Second // the data directory, and files of closed partitions
)

// loop reads its sources again and again.
type loop struct {
	name    string
	every   time.Duration
	limit   time.Duration // for one source
	sources []*source
	o       *Observer
}

// source is one thing to be read. What it read last stays until it reads something else.
type source struct {
	name string
	read func(ctx context.Context) error
	busy atomic.Bool // it has not answered yet
}

func (o *Observer) newLoops(e *engine.Engine) []*loop {
	v := &o.vitals
	return []*loop{
		{name: "vitals", every: o.config.poll, limit: sourceLimit, o: o, sources: []*source{
			{name: "ingress", read: func(context.Context) error { v.ingress(e); return nil }},
			{name: "topics", read: func(context.Context) error { o.reconcile(e); return nil }},
			{name: "disk", read: func(context.Context) error { return v.disk() }},
		}},
		{name: "inventory", every: o.config.poll, limit: sourceLimit, o: o, sources: []*source{
			{name: "ages", read: func(ctx context.Context) error { return v.ages(ctx, e) }},
			{name: "closed_partitions", read: func(ctx context.Context) error { return v.learn(ctx, e) }},
			{name: "data_dir", read: func(context.Context) error { return v.walk() }},
		}},
	}
}

func (l *loop) run(stop <-chan struct{}) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		l.round(stop)
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// round reads every source once, and stamps the loop when all of them answered in time.
func (l *loop) round(stop <-chan struct{}) {
	well := true
	for _, s := range l.sources {
		if !l.ask(s, stop) {
			well = false
		}
	}
	if well {
		l.o.node.poller.WithLabelValues(l.name).Set(float64(time.Now().UnixMilli()) / 1000)
	}
}

// ask reads a source, and reports whether it answered in time. One that has not answered yet is not asked again.
func (l *loop) ask(s *source, stop <-chan struct{}) bool {
	if !s.busy.CompareAndSwap(false, true) {
		l.o.node.fail(errorKind{"metrics", s.name + "_timeout"})
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		err := s.read(ctx)
		s.busy.Store(false)
		done <- err
	}()
	late := time.NewTimer(l.limit)
	defer late.Stop()
	select {
	case err := <-done:
		if err != nil {
			l.o.node.fail(errorKind{"metrics", s.name})
			return false
		}
		return true
	case <-late.C:
		l.o.node.fail(errorKind{"metrics", s.name + "_timeout"})
		return false
	case <-stop:
		cancel()
		return false
	}
}
