package engine

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkNotify is the wake notifier on a topic that nobody waits for (PERF-14).
func BenchmarkNotify(b *testing.B) {
	t := &topic{}
	b.ReportAllocs()
	for range b.N {
		t.notify()
	}
}

// BenchmarkEmptyConsume is a consume that finds nothing on any of its partitions (PERF-03). Up to 16 partitions are
// resolved in one go.
func BenchmarkEmptyConsume(b *testing.B) {
	for _, partitions := range []int{1, 8, 12, 16, 17} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			e := openBench(b, TopicSpec{Name: "t", Partitions: partitions})
			r := &ConsumeRequest{Topic: "t", Partition: AnyPartition}
			_, err := e.Consume(r) // opens everything
			require.ErrorIs(b, err, ErrEmpty)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				e.Consume(r)
			}
		})
	}
}

// BenchmarkDeliverParked is a produce whose message a parked consumer gets, beside others that go on waiting: the cost of a
// delivery must not follow their number (PERF-13, PUMP-04).
func BenchmarkDeliverParked(b *testing.B) {
	for _, parked := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprint(parked), func(b *testing.B) {
			e := openBench(b, one(0))
			delivered := make(chan *Delivery)
			var consumers sync.WaitGroup
			requests := make([]*ConsumeRequest, parked)
			for i := range requests {
				requests[i] = &ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: MaxWait}
				consumers.Go(func() { consumeAll(e, requests[i], delivered) })
			}
			time.Sleep(time.Duration(parked) * 20 * time.Microsecond) // they are parked
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				require.NoError(b, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("x")}))
				if parked > 0 {
					<-delivered
					continue
				}
				d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0, Wait: MaxWait})
				require.NoError(b, err)
				require.NoError(b, e.Ack("t", d.Handle))
			}
			b.StopTimer()
			for _, r := range requests {
				r.Cancel()
			}
			consumers.Wait()
		})
	}
}

// consumeAll takes and acks until it is cancelled.
func consumeAll(e *Engine, r *ConsumeRequest, delivered chan<- *Delivery) {
	for {
		d, err := e.Consume(r)
		switch {
		case errors.Is(err, ErrEmpty):
		case err != nil:
			return
		default:
			e.Ack("t", d.Handle)
			delivered <- d
		}
	}
}

// BenchmarkLeave is a consumer that gives up its place among many (PUMP-20).
func BenchmarkLeave(b *testing.B) {
	for _, queue := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(queue), func(b *testing.B) {
			var q waitQueue
			quiet := func() {}
			join := func() *waiter {
				w := &waiter{partition: AnyPartition}
				q.join(w, quiet)
				return w
			}
			ring := make([]*waiter, queue)
			for i := range ring {
				ring[i] = join()
			}
			b.ResetTimer()
			for i := range b.N {
				at := i * 7919 % queue
				q.leave(ring[at], quiet)
				ring[at] = join()
			}
		})
	}
}

// BenchmarkProduceConsumeAck is the life of messages through one engine with real files, one by one and in batches of 100.
func BenchmarkProduceConsumeAck(b *testing.B) {
	for _, size := range []int{256, 1024} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(b *testing.B) {
				e := openBench(b, one(0))
				messages := make([]Message, batch)
				for i := range messages {
					messages[i] = Message{Partition: 0, Payload: make([]byte, size)}
				}
				b.SetBytes(int64(size))
				b.ResetTimer()
				for done := 0; done < b.N; done += batch {
					require.NoError(b, e.ProduceBatch("t", messages))
					for got := 0; got < batch; {
						ds, err := e.ConsumeBatch(&ConsumeRequest{Topic: "t", Partition: 0, Wait: MaxWait}, batch)
						require.NoError(b, err)
						for _, d := range ds {
							require.NoError(b, e.Ack("t", d.Handle))
						}
						got += len(ds)
					}
				}
			})
		}
	}
}

func openBench(b *testing.B, spec TopicSpec) *Engine {
	b.Helper()
	e, err := Open(b.TempDir(), Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, e.Close()) })
	_, err = e.CreateTopic(spec)
	require.NoError(b, err)
	return e
}
