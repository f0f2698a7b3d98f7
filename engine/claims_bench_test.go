package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
)

// Figures that the specification claims, each beside the design that it replaced. `narad-bench engine` runs them and compares
// the ratios. A name is BenchmarkPERF, the number, and the variant.

// PERF-14: on a topic that nobody waits for, a notification allocates nothing.
func TestNotifyDoesNotAllocate(t *testing.T) {
	topic := &topic{}
	require.Zero(t, testing.AllocsPerRun(1000, topic.notify))
}

func BenchmarkPERF14(b *testing.B) {
	t := &topic{}
	b.ReportAllocs()
	for b.Loop() {
		t.notify()
	}
}

// scanQueue is the replaced design: whoever leaves is searched for and the rest moves up.
type scanQueue struct{ list []*waiter }

func (q *scanQueue) leave(w *waiter) {
	for i, other := range q.list {
		if other == w {
			q.list = append(q.list[:i], q.list[i+1:]...)
			return
		}
	}
}

// BenchmarkPERF02 is a consumer that gives up its place among 1,000 and takes a new one (PERF-02, PUMP-20).
func BenchmarkPERF02(b *testing.B) {
	const entries = 1000
	ring := make([]*waiter, entries)
	b.Run("scan", func(b *testing.B) {
		var q scanQueue
		for i := range ring {
			ring[i] = &waiter{}
			q.list = append(q.list, ring[i])
		}
		for i := range b.N {
			at := i * 7919 % entries
			q.leave(ring[at])
			ring[at] = &waiter{}
			q.list = append(q.list, ring[at])
		}
	})
	b.Run("mark", func(b *testing.B) {
		var q waitQueue
		quiet := func() {}
		join := func() *waiter {
			w := &waiter{partition: AnyPartition}
			q.join(w, quiet)
			return w
		}
		for i := range ring {
			ring[i] = join()
		}
		for i := range b.N {
			at := i * 7919 % entries
			q.leave(ring[at], quiet)
			ring[at] = join()
		}
	})
}

// memoryBench is an engine on a disk that takes no time.
func memoryBench(b *testing.B, spec TopicSpec) *Engine {
	b.Helper()
	e, err := Open("data", Options{Env: env.OS().WithFS(disk.FS(disk.New(disk.Ordered)))})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, e.Close()) })
	_, err = e.CreateTopic(spec)
	require.NoError(b, err)
	return e
}

// BenchmarkPERF03 is a look at all partitions that finds nothing: their logs resolved one by one, and in one go (PERF-03,
// CON-13).
func BenchmarkPERF03(b *testing.B) {
	for _, partitions := range []int{8, 12} {
		e := memoryBench(b, TopicSpec{Name: "t", Partitions: partitions})
		_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition}) // opens everything
		require.ErrorIs(b, err, ErrEmpty)
		t, err := e.topic("t")
		require.NoError(b, err)
		b.Run(fmt.Sprintf("%d-single", partitions), func(b *testing.B) {
			for b.Loop() {
				all := t.partitions()
				start := t.start.Add(1)
				for i := range uint32(partitions) {
					if _, _, err := all[(start+i)%uint32(partitions)].take(nil, 0, HandoutScan); err == nil {
						b.Fatal("a message")
					}
				}
			}
		})
		b.Run(fmt.Sprintf("%d-many", partitions), func(b *testing.B) {
			for b.Loop() {
				if _, err := t.scan(AnyPartition, HandoutScan); err == nil {
					b.Fatal("a message")
				}
			}
		})
	}
}

// BenchmarkPERF13 is a produce that one of N parked consumers gets, on a disk that takes no time (PERF-13).
func BenchmarkPERF13(b *testing.B) {
	for _, parked := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(parked), func(b *testing.B) {
			e := memoryBench(b, one(0))
			delivered := make(chan *Delivery, 1)
			requests := make([]*ConsumeRequest, parked)
			var consumers sync.WaitGroup
			for i := range requests {
				requests[i] = &ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: MaxWait}
				consumers.Go(func() { consumeAll(e, requests[i], delivered) })
			}
			topic, err := e.topic("t")
			require.NoError(b, err)
			require.Eventually(b, func() bool {
				return topic.waiting.parked() == parked
			}, time.Minute, time.Millisecond)
			payload := make([]byte, 100)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				require.NoError(b, e.Produce(Message{Topic: "t", Partition: 0, Payload: payload}))
				<-delivered
			}
			b.StopTimer()
			for _, r := range requests {
				r.Cancel()
			}
			consumers.Wait()
		})
	}
}
