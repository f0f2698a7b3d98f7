package realfs

import (
	"slices"
	"sync"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/inflight"
)

// Ledger keeps the facts of a life while it goes on. What a client is about to try is in it before, what it was told after,
// so that at any instant it holds no more promises, and no fewer attempts, than there are.
type Ledger struct {
	world *env.Env // the engine's clock
	began env.Instant
	power bool // what the life found on its disk is durable

	mu    sync.Mutex // guards what follows; nothing is waited for under it
	facts *Facts
	wrong error         // the first thing that the engine of a healthy disk must not say
	nap   time.Duration // since when the sleeper sleeps
}

func newLedger(f *Facts, power bool) *Ledger {
	world := env.OS()
	return &Ledger{world: world, began: world.Now(), power: power, facts: f}
}

func (l *Ledger) clock() time.Duration { return l.world.Now().Sub(l.began) }

// napLasts is how long the sleeper of a life means to sleep.
const napLasts = 5 * time.Millisecond

// slept notes how late the sleeper is or was woken; again says that it goes to sleep once more.
func (l *Ledger) slept(again bool) {
	now := l.clock()
	l.facts.Late = max(l.facts.Late, now-l.nap-napLasts)
	if again {
		l.nap = now
	}
}

// snapshot returns the facts at this instant.
func (l *Ledger) snapshot() *Facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slept(false) // it may be late at this very instant
	f := l.facts.clone()
	f.At = l.clock()
	return f
}

// do changes the facts.
func (l *Ledger) do(change func(*Facts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.facts)
}

// fault returns what the engine said that it must not say.
func (l *Ledger) fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

// trying notes messages that are about to be sent and returns the number of the first.
func (l *Ledger) trying(topic string, sizes []int) (first int) {
	l.do(func(f *Facts) {
		first = len(f.Messages)
		for _, size := range sizes {
			f.Messages = append(f.Messages, Message{Topic: topic, Size: size})
		}
	})
	return first
}

func (l *Ledger) accepted(first, count int) {
	l.do(func(f *Facts) {
		for i := range count {
			f.Messages[first+i].Accepted = true
		}
	})
}

// delivered notes what a client received and says which message it is.
func (l *Ledger) delivered(d *engine.Delivery) (id int, err error) {
	l.do(func(f *Facts) {
		if id, err = f.identify(d); err == nil {
			err = f.holds(d, id)
		}
	})
	return id, err
}

// holds notes that an offset holds a message, which it must for ever.
func (f *Facts) holds(d *engine.Delivery, id int) error {
	p := f.part(engine.Key{Topic: d.Topic, Partition: d.Partition})
	if before, known := p.Copies[d.Offset]; known && before != id {
		return violate("INV-04", "%s/%d offset %d held message %d and holds message %d", d.Topic, d.Partition, d.Offset, before, id)
	}
	p.Copies[d.Offset] = id
	return nil
}

func (l *Ledger) ackTried(t Lease) {
	l.do(func(f *Facts) {
		f.Messages[t.Message].AckTried = true
		f.part(t.key()).AckTried[t.Handle.Offset] = true
	})
}

// acked notes an ack that has returned and was accepted.
func (l *Ledger) acked(t Lease) {
	l.do(func(f *Facts) { f.part(t.key()).Acked[t.Handle.Offset] = l.clock() })
}

// stopped notes a graceful stop: all that was acked is durable.
func (l *Ledger) stopped() {
	l.do(func(f *Facts) {
		for _, p := range f.Parts {
			acked := inflight.State{Committed: -1}
			for o := range p.Acked {
				acked.Ahead = append(acked.Ahead, o)
			}
			slices.Sort(acked.Ahead)
			p.Durable = union(p.Written, acked)
			p.Written = p.Durable
		}
	})
}

// hear is the listener of the engine.
func (l *Ledger) hear(v engine.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong == nil {
		l.wrong = unhealthy(v)
	}
	switch v := v.(type) {
	case engine.Dispatched:
		p := l.facts.part(v.Key)
		p.Next = max(p.Next, v.Offset+1)
	case engine.ShardOpened:
		p := l.facts.part(v.Key)
		p.Written = union(p.Written, v.State)
		if l.power {
			p.Durable = p.Written
		}
	case engine.ConsumerSnapshot:
		l.facts.part(v.Key).taken = inflight.State{Committed: v.State.Committed, Ahead: slices.Clone(v.State.Ahead)}
	case engine.Consumer:
		l.hearCommitter(v.Event)
	}
}

func (l *Ledger) hearCommitter(v committer.Event) {
	part := func(k committer.Key) *Part {
		return l.facts.part(engine.Key{Topic: k.Topic, Partition: k.Partition})
	}
	switch v := v.(type) {
	case committer.Primed:
		if p := part(v.Key); v.Err == nil {
			p.Durable = p.Written
		}
	case committer.WindowWritten:
		if p := part(v.Key); v.Err == nil {
			p.Written = inflight.State{Committed: p.taken.Committed, Ahead: p.taken.Ahead[:min(len(p.taken.Ahead), v.Stored)]}
		}
	case committer.WrittenOut:
		if p := part(v.Key); v.Err == nil {
			p.Durable = p.Written
			l.facts.Longest = max(l.facts.Longest, v.End.Sub(v.Start))
		}
	case committer.TickDone:
		l.facts.Longest = max(l.facts.Longest, v.Took)
		if began := v.Start.Sub(l.began); v.Failed == 0 {
			l.facts.Ticks = &Ticks{began, began + v.Took}
		}
	}
}

// unhealthy returns what an engine on a healthy disk, whose topics are never deleted, must not say.
func unhealthy(v engine.Event) error {
	switch v := v.(type) {
	case engine.CorruptSkipped:
		return violate("INV-02", "%v: offset %d was skipped as unreadable: %v", v.Key, v.Offset, v.Err)
	case engine.FrontierClamped:
		return violate("INV-11", "%v: the frontier was %d with a high watermark of %d", v.Key, v.Frontier, v.HW)
	case engine.FrontierJumped:
		return violate("INV-29", "%v: the frontier jumped from %d to %d without retention", v.Key, v.From, v.Oldest)
	case engine.RecordDiscarded:
		return violate("INV-02", "record %d of the ingress log was discarded", v.Seq)
	case engine.RecordHeld:
		return violate("INV-02", "record %d of the ingress log fits no topic: %v", v.Seq, v.Err)
	case engine.DispatchFailed:
		return violate("INV-02", "%v: %d records were not committed: %v", v.Key, v.Records, v.Err)
	case engine.CleanMarkIgnored:
		return violate("INV-10", "the mark of a graceful stop is damaged: %v", v.Err)
	}
	return nil
}
