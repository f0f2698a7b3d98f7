package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"narad/engine"
)

// The traffic whose acks are counted after a crash.
const (
	trafficTopic      = "acks"
	trafficPartitions = 16
	trafficBatch      = 32
	trafficPause      = 10 * time.Millisecond // of each consumer, between batches
	trafficConsumers  = 4
)

// place names a stored message.
type place struct {
	partition int32
	offset    int64
}

// traffic produces, consumes and acks on e until stop is set. onAck is told of each ack after it returned; it is called by
// several goroutines.
func traffic(e *engine.Engine, stop *atomic.Bool, onAck func(place)) error {
	_, err := e.CreateTopic(engine.TopicSpec{Name: trafficTopic, Partitions: trafficPartitions})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make(chan error, trafficConsumers+1)
	group.Go(func() { errs <- produceTraffic(e, stop) })
	for range trafficConsumers {
		group.Go(func() { errs <- consumeTraffic(e, stop, onAck) })
	}
	group.Wait()
	close(errs)
	for one := range errs {
		err = errors.Join(err, one)
	}
	return err
}

// produceTraffic keeps a little more in the queue than the consumers take.
func produceTraffic(e *engine.Engine, stop *atomic.Bool) error {
	batch := make([]engine.Message, trafficConsumers*trafficBatch)
	for i := range batch {
		batch[i] = engine.Message{Partition: engine.AnyPartition, Payload: []byte("some message")}
	}
	for !stop.Load() {
		if err := e.ProduceBatch(trafficTopic, batch); err != nil {
			return err
		}
		time.Sleep(trafficPause)
	}
	return nil
}

func consumeTraffic(e *engine.Engine, stop *atomic.Bool, onAck func(place)) error {
	for !stop.Load() {
		ds, err := e.ConsumeBatch(&engine.ConsumeRequest{Topic: trafficTopic, Partition: engine.AnyPartition, Wait: 100 * time.Millisecond}, trafficBatch)
		if err != nil && !errors.Is(err, engine.ErrEmpty) {
			return err
		}
		for _, d := range ds {
			if err := e.Ack(trafficTopic, d.Handle); err != nil {
				return err
			}
			onAck(place{d.Partition, d.Offset})
		}
		time.Sleep(trafficPause)
	}
	return nil
}

// Traffic runs an engine in dir and writes a line for each ack, "partition offset unix-nanoseconds", until it is killed.
func Traffic(dir string, interval time.Duration, w io.Writer) error {
	e, err := engine.Open(dir, engine.Options{CommitInterval: interval})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := bufio.NewWriter(w)
	return traffic(e, new(atomic.Bool), func(p place) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%d %d %d\n", p.partition, p.offset, time.Now().UnixNano())
		out.Flush() // an ack that nobody heard of cannot be counted
	})
}

// delivered opens what a crash left and returns everything that is handed out.
func delivered(dir string, o engine.Options) (map[place]bool, error) {
	e, err := engine.Open(dir, o)
	if err != nil {
		return nil, err
	}
	all := map[place]bool{}
	for {
		// What was accepted and not yet dispatched arrives a moment later.
		ds, err := e.ConsumeBatch(&engine.ConsumeRequest{Topic: trafficTopic, Partition: engine.AnyPartition, Wait: 200 * time.Millisecond}, 1000)
		if errors.Is(err, engine.ErrEmpty) {
			return all, e.Close()
		}
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		for _, d := range ds {
			all[place{d.Partition, d.Offset}] = true
			if err := e.Ack(trafficTopic, d.Handle); err != nil {
				return nil, errors.Join(err, e.Close())
			}
		}
	}
}
