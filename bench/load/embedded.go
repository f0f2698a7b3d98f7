package load

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"narad/bench/tap"
	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/vfs"
)

// embedded is an engine in this process, on files that are counted.
type embedded struct {
	engine *engine.Engine
	files  *tap.FS
}

func openEmbedded(dir string, prepared bool) (*embedded, error) {
	files := tap.New(vfs.OS{})
	e, err := engine.Open(dir, engine.Options{Env: env.OS().WithFS(files), WALPreallocate: prepared})
	return &embedded{e, files}, err
}

func (t *embedded) createTopic(name string, partitions int) error {
	_, err := t.engine.CreateTopic(engine.TopicSpec{Name: name, Partitions: partitions, MaxInFlight: 1 << 16})
	return err
}

func (t *embedded) close() error { return t.engine.Close() }

// produce runs a producer against the engine.
func (t *embedded) produce(group *clients, p *producer, topic string, size int) {
	group.Go(func() {
		if p.schedule != nil { // sleeps of its own need a thread of its own
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		batch := make([]engine.Message, p.batch)
		for i := range batch {
			batch[i] = engine.Message{Topic: topic, Partition: engine.AnyPartition, Payload: newPayload(size)}
		}
		for {
			again, ok := p.may()
			switch {
			case !ok && again == never:
				return
			case !ok && again == soon:
				time.Sleep(100 * time.Microsecond)
				continue
			case !ok:
				sleepUntil(again)
				continue
			}
			for i := range batch {
				putID(batch[i].Payload[len(payloadFront):], p.first+int64(i))
			}
			var err error
			if p.batch == 1 {
				err = t.engine.Produce(batch[0])
			} else {
				err = t.engine.ProduceBatch(topic, batch)
			}
			if err != nil {
				p.failed()
				group.fail(fmt.Errorf("load: produce: %w", err))
				return
			}
			p.done()
		}
	})
}

// consume runs a consumer against the engine.
func (t *embedded) consume(group *clients, c *consumer, wait time.Duration, batch int) {
	group.Go(func() {
		var handles []inflight.Handle
		for c.phase.consume.Load() {
			c.sent = now()
			ds, err := t.take(c, wait, batch)
			if errors.Is(err, engine.ErrEmpty) || errors.Is(err, engine.ErrCancelled) {
				continue
			}
			if err != nil {
				group.fail(fmt.Errorf("load: consume: %w", err))
				return
			}
			c.held, handles = c.held[:0], handles[:0]
			for _, d := range ds {
				c.held = append(c.held, received{id: payloadID(d.Payload)})
				handles = append(handles, d.Handle)
			}
			c.took(now())
			c.sent = now()
			answers := t.ack(c.topic, handles)
			for _, err := range answers {
				if err != nil && !errors.Is(err, engine.ErrLeaseGone) {
					group.fail(fmt.Errorf("load: ack: %w", err))
					return
				}
			}
			c.settle(func(i int) bool { return answers[i] == nil })
		}
	})
}

func (t *embedded) take(c *consumer, wait time.Duration, batch int) ([]*engine.Delivery, error) {
	r := &engine.ConsumeRequest{Topic: c.topic, Partition: engine.AnyPartition, Wait: wait}
	c.asked.Store(r)
	if !c.phase.consume.Load() { // whoever cancels may have seen the request before
		return nil, engine.ErrCancelled
	}
	if batch > 1 {
		return t.engine.ConsumeBatch(r, batch)
	}
	d, err := t.engine.Consume(r)
	return []*engine.Delivery{d}, err
}

// cancel ends the wait of an embedded consumer.
func (c *consumer) cancel() {
	if r := c.asked.Load(); r != nil {
		r.Cancel()
	}
}

func (t *embedded) ack(topic string, handles []inflight.Handle) []error {
	if len(handles) == 1 {
		return []error{t.engine.Ack(topic, handles[0])}
	}
	return t.engine.AckBatch(topic, handles, engine.OpAck)
}

// park lets n consumers wait for messages that never come, spread over a few topics.
func (t *embedded) park(n int) (stop func(), err error) {
	for i := range min(n, idleTopics) {
		if err := t.createTopic(idleTopic(i), 3); err != nil && !errors.Is(err, engine.ErrTopicExists) {
			return nil, err
		}
	}
	var over atomic.Bool
	var group sync.WaitGroup
	requests := make([]atomic.Pointer[engine.ConsumeRequest], n)
	for i := range requests {
		group.Go(func() {
			for !over.Load() {
				r := &engine.ConsumeRequest{Topic: idleTopic(i), Partition: engine.AnyPartition, Wait: engine.MaxWait}
				requests[i].Store(r)
				if over.Load() { // whoever stops may have seen the request before
					return
				}
				t.engine.Consume(r)
			}
		})
	}
	return func() {
		over.Store(true)
		for i := range requests {
			if r := requests[i].Load(); r != nil {
				r.Cancel()
			}
		}
		group.Wait()
	}, nil
}

// idleTopics is how many topics those share that wait for nothing.
const idleTopics = 10

func idleTopic(i int) string { return "idle-" + strconv.Itoa(i%idleTopics) }
