package realfs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"narad/engine"
	"narad/inflight"
)

// judgePatience bounds the drain of one image: no lease is out, so nothing has to be waited for.
const judgePatience = 60 * time.Second

// replayed is how many offsets of a partition are read again.
const replayed = 20

// Verdict is what an image came to when nothing was wrong with it.
type Verdict struct {
	Delivered int           // messages
	Settled   int           // offsets that were settled in the recovered state
	Back      int           // acks of the life that the crash undid
	Oldest    time.Duration // the age of the oldest of them at the cut
}

// Judge opens the image with a real engine on real files in dir, which must be empty or missing, and holds what it does against
// the facts. The error names the invariant that does not hold.
func (i *Image) Judge(dir string) (Verdict, error) {
	if err := Materialise(i.disk, dir); err != nil {
		return Verdict{}, err
	}
	return Judge(dir, i.Facts, i.Crash)
}

// Judge does that with an image that is in dir already; it changes it.
func Judge(dir string, f *Facts, c Crash) (Verdict, error) {
	// What a judgement sees is noted in the facts, and another image of the same cut may hold something else there.
	j := judge{facts: f.clone(), crash: c, recovered: map[engine.Key]engine.ShardOpened{}, delivered: map[engine.Key]map[int64]int{}}
	if err := j.first(dir); err != nil {
		return j.verdict, err
	}
	return j.verdict, j.second(dir)
}

type judge struct {
	facts     *Facts
	crash     Crash
	verdict   Verdict
	delivered map[engine.Key]map[int64]int // messages by offset

	mu        sync.Mutex // guards what the listener fills
	recovered map[engine.Key]engine.ShardOpened
	wrong     error
}

func (j *judge) hear(v engine.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wrong == nil {
		j.wrong = unhealthy(v)
	}
	if v, ok := v.(engine.ShardOpened); ok {
		j.recovered[v.Key] = v
	}
}

func (j *judge) fault() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrong
}

// first opens what the crash left, drains it, and judges what was there.
func (j *judge) first(dir string) error {
	e, err := engine.Open(dir, engine.Options{Listener: j.hear})
	if err != nil {
		return violate("INV-11", "the engine does not open: %v", err)
	}
	err = j.drain(e)
	if closeErr := e.Close(); err == nil && closeErr != nil {
		err = violate("INV-10", "the engine does not close: %v", closeErr)
	}
	if err == nil {
		err = j.fault()
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(j.facts.Topics)) {
		for p := range j.facts.Topics[name] {
			if err := j.partition(engine.Key{Topic: name, Partition: int32(p)}); err != nil {
				return err
			}
		}
	}
	return j.owed()
}

// second opens it again after a graceful stop: there is nothing to deliver (REC-07), and what was delivered can be replayed.
func (j *judge) second(dir string) error {
	e, err := engine.Open(dir, engine.Options{Listener: j.hear})
	if err != nil {
		return violate("INV-10", "the engine does not open after a graceful stop: %v", err)
	}
	err = j.nothingLeft(e)
	if closeErr := e.Close(); err == nil && closeErr != nil {
		err = violate("INV-10", "the engine does not close: %v", closeErr)
	}
	if err == nil {
		err = j.fault()
	}
	return err
}

func (j *judge) nothingLeft(e *engine.Engine) error {
	for name := range j.facts.Topics {
		ds, err := e.ConsumeBatch(&engine.ConsumeRequest{Topic: name, Partition: engine.AnyPartition}, 1)
		if err == nil {
			return violate("INV-10", "%s/%d offset %d is delivered again after it was acked and the engine stopped gracefully", name, ds[0].Partition, ds[0].Offset)
		}
		if !errors.Is(err, engine.ErrEmpty) {
			return violate("INV-10", "consume: %v", err)
		}
	}
	for k, copies := range j.delivered {
		for _, o := range slices.Sorted(maps.Keys(copies))[:min(len(copies), replayed)] {
			d, err := e.Replay(k.Topic, k.Partition, o)
			if err != nil {
				return violate("INV-04", "%v offset %d was delivered and cannot be replayed: %v", k, o, err)
			}
			if id, err := j.facts.identify(d); err != nil || id != copies[o] {
				return violate("INV-04", "%v offset %d was message %d and is replayed as %d: %v", k, o, copies[o], id, err)
			}
		}
	}
	return nil
}

// drain takes and acks everything until the ingress log is dispatched and every partition settled.
func (j *judge) drain(e *engine.Engine) error {
	for deadline := time.Now().Add(judgePatience); ; {
		took := 0
		for _, name := range slices.Sorted(maps.Keys(j.facts.Topics)) {
			n, err := j.take(e, name)
			if err != nil {
				return err
			}
			took += n
		}
		left := j.left(e)
		if left == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return violate("INV-02", "not drained after %v: %s", judgePatience, left)
		}
		if took == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func (j *judge) take(e *engine.Engine, topic string) (int, error) {
	if _, err := e.Topic(topic); err != nil {
		return 0, violate("INV-02", "topic %s, whose creation was answered: %v", topic, err)
	}
	ds, err := e.ConsumeBatch(&engine.ConsumeRequest{Topic: topic, Partition: engine.AnyPartition}, engine.MaxConsumeBatch)
	if err != nil && !errors.Is(err, engine.ErrEmpty) {
		return 0, violate("INV-02", "consume: %v", err)
	}
	for _, d := range ds {
		id, err := j.facts.identify(d)
		if err == nil {
			err = j.facts.holds(d, id)
		}
		if err != nil {
			return 0, err
		}
		k := engine.Key{Topic: d.Topic, Partition: d.Partition}
		if j.delivered[k] == nil {
			j.delivered[k] = map[int64]int{}
		}
		j.delivered[k][d.Offset] = id
		if err := e.Ack(topic, d.Handle); err != nil && !errors.Is(err, engine.ErrLeaseGone) { // a machine may stand still for longer than a lease
			return 0, violate("INV-06", "ack of %v offset %d: %v", k, d.Offset, err)
		}
	}
	return len(ds), nil
}

// left says what is not delivered and acked yet, empty for nothing.
func (j *judge) left(e *engine.Engine) string {
	if in := e.Ingress(); in.Checkpoint < in.Next {
		return fmt.Sprintf("%d records of the ingress log wait from %d on", in.Next-in.Checkpoint, in.Checkpoint)
	}
	for name := range j.facts.Topics {
		view, err := e.Describe(name)
		if err != nil {
			return err.Error()
		}
		for _, p := range view.Partitions {
			if !p.ConsumerKnown || !p.LogKnown || p.Lag() > 0 {
				return fmt.Sprintf("%s/%d: frontier %d, high watermark %d", name, p.Partition, p.Committed, p.HighWatermark)
			}
		}
	}
	return ""
}

// partition judges what was recovered of one partition.
func (j *judge) partition(k engine.Key) error {
	opened, ok := j.recovered[k]
	p := j.facts.part(k)
	if !ok {
		return violate("INV-11", "%v was drained and its consumer state never opened", k)
	}
	last := int64(len(j.delivered[k]))
	for o := range j.delivered[k] {
		last = max(last, o+1)
	}
	if n := max(last, opened.HW); n < p.Next {
		return violate("INV-04", "%v: offset %d was confirmed, and the log ends at %d", k, p.Next-1, n)
	}
	floor, invariant := p.Durable, "INV-09"
	switch j.crash {
	case Killed:
		floor, invariant = union(p.Durable, p.Written), "INV-08"
	case Graceful:
		invariant = "INV-10"
	}
	if o, lost := missing(floor, opened.State); lost {
		return violate(invariant, "%v: offset %d was settled on the disk (frontier %d), the recovered frontier is %d", k, o, floor.Committed, opened.State.Committed)
	}
	for o := range max(last, p.Next) {
		if err := j.offset(k, p, opened.State, o); err != nil {
			return err
		}
	}
	return j.windows(k, p, opened.State)
}

// offset judges one: settled because somebody tried to ack it, or delivered.
func (j *judge) offset(k engine.Key, p *Part, recovered inflight.State, o int64) error {
	_, again := j.delivered[k][o]
	if !settled(recovered, o) {
		if !again {
			return violate("INV-02", "%v: offset %d was not settled and is not delivered", k, o)
		}
		return nil
	}
	j.verdict.Settled++
	if again {
		return violate("INV-07", "%v: offset %d was settled in the recovered state and is delivered", k, o)
	}
	if !p.AckTried[o] {
		return violate("INV-11", "%v: offset %d is settled and nobody acked it", k, o)
	}
	return nil
}

// windows judges the age of the acks that the crash undid. As in the simulator (sim/check, consumer.go): a kill undoes those since
// the last tick that ended began, a loss of power those of about D + T, and of the delays that there really were.
func (j *judge) windows(k engine.Key, p *Part, recovered inflight.State) error {
	f, invariant := j.facts, "INV-09"
	safe, known := f.safe(j.crash)
	if j.crash == Killed {
		invariant = "INV-08"
	}
	for o, at := range p.Acked {
		if settled(recovered, o) {
			continue
		}
		j.verdict.Back++
		j.verdict.Oldest = max(j.verdict.Oldest, f.At-at)
		if known && at < safe {
			return violate(invariant, "%v: the ack of offset %d came back, it was %v old and %v older than a crash may undo (D %v, longest tick or writeout %v, woken late by %v)",
				k, o, f.At-at, safe-at, f.Interval, f.Longest, f.Late)
		}
	}
	return nil
}

// safe returns the instant before which an ack must have returned to survive; known is false when there is none yet.
func (f *Facts) safe(c Crash) (at time.Duration, known bool) {
	switch {
	case f.Ticks == nil:
		return 0, false
	case c == Killed:
		return f.Ticks.Began, true
	}
	tick := min(f.Interval, 100*time.Millisecond)
	ongoing := max(0, f.At-f.Ticks.Ended-tick) // a tick that had not ended
	return f.At - f.Interval - tick - 2*f.Longest - ongoing - 3*f.Late - napLasts, true
}

// owed judges what was accepted and never acked: it is delivered (INV-02).
func (j *judge) owed() error {
	got := map[int]bool{}
	for _, copies := range j.delivered {
		for _, id := range copies {
			got[id] = true
			j.verdict.Delivered++
		}
	}
	for id, m := range j.facts.Messages {
		if m.Accepted && !m.AckTried && !got[id] {
			return violate("INV-02", "message %d to %s was accepted, never acked, and is not delivered", id, m.Topic)
		}
	}
	return nil
}

// remove deletes a directory of this package.
func remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	return nil
}
