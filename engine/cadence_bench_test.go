package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkProduceBesideAcks is how many produces a second one caller gets while 64 partitions are acked in every tick, under
// two cadences (D = 1 s: a sync per partition and second) and under one (D = 100 ms: every changed partition is
// synced in every tick), and beside an idle committer (PERF-07, COM-10).
func BenchmarkProduceBesideAcks(b *testing.B) {
	for _, c := range []struct {
		name     string
		interval time.Duration
		acks     bool
	}{{"idle", time.Second, false}, {"two-cadences", time.Second, true}, {"one-cadence", 100 * time.Millisecond, true}} {
		b.Run(c.name, func(b *testing.B) {
			const partitions, backlog = 64, 400
			e, err := Open(b.TempDir(), Options{CommitInterval: c.interval})
			require.NoError(b, err)
			defer e.Close()
			for _, name := range []string{"acked", "produced"} {
				_, err = e.CreateTopic(TopicSpec{Name: name, Partitions: partitions, MaxInFlight: 4096})
				require.NoError(b, err)
			}
			for p := range partitions {
				batch := make([]Message, backlog)
				for i := range batch {
					batch[i] = Message{Topic: "acked", Partition: int32(p), Payload: fmt.Append(nil, i)}
				}
				require.NoError(b, e.ProduceBatch("acked", batch))
			}
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() && c.acks {
					for p := range partitions {
						d, err := e.Consume(&ConsumeRequest{Topic: "acked", Partition: int32(p), Wait: 10 * time.Second})
						if err != nil {
							return
						}
						e.Ack("acked", d.Handle)
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
			payload := make([]byte, 1024)
			b.ResetTimer()
			for range b.N {
				if err := e.Produce(Message{Topic: "produced", Partition: 0, Payload: payload}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "produces/s")
			stop.Store(true)
			<-done
		})
	}
}
