package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Waiting is called by a consume that finds nothing, before it waits, and by no other.
func TestWaiting(t *testing.T) {
	e, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.CreateTopic(TopicSpec{Name: "orders"})
	require.NoError(t, err)
	for _, count := range []int{0, 2} {
		calls := 0
		consume := func(wait time.Duration, then func(*ConsumeRequest)) error {
			r := &ConsumeRequest{Topic: "orders", Partition: AnyPartition, Wait: wait}
			r.Waiting = func() { calls++; then(r) }
			if count == 0 {
				_, err := e.Consume(r)
				return err
			}
			_, err := e.ConsumeBatch(r, count)
			return err
		}
		nothing := func(*ConsumeRequest) {}
		require.ErrorIs(t, consume(0, nothing), ErrEmpty)
		require.Zero(t, calls, "it does not wait")
		require.ErrorIs(t, consume(time.Minute, (*ConsumeRequest).Cancel), ErrCancelled)
		require.Equal(t, 1, calls, "a cancellation from within is not lost")
		require.NoError(t, e.Produce(Message{Topic: "orders", Partition: 0, Payload: []byte("x")}))
		require.Eventually(t, func() bool {
			v, err := e.Describe("orders")
			return err == nil && v.Partitions[0].HighWatermark > v.Partitions[0].Committed+1+int64(v.Partitions[0].Leases)
		},
			20*time.Second, time.Millisecond)
		require.NoError(t, consume(time.Minute, nothing))
		require.Equal(t, 1, calls, "a message was there")
	}
}
