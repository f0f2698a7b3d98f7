package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// OBS-10: lag can be seen without a consumer, and without opening anything.
func TestDescribe(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir, Options{})
	require.NoError(t, err)
	_, err = e.CreateTopic(TopicSpec{Name: "t", Partitions: 3})
	require.NoError(t, err)
	v, err := e.Describe("t")
	require.NoError(t, err)
	require.Len(t, v.Partitions, 3)
	require.Equal(t, PartitionView{Partition: 1}, v.Partitions[1], "nothing is open, nothing is known")

	for range 3 {
		require.NoError(t, e.Produce(Message{Topic: "t", Partition: 1, Payload: []byte("payload")}))
	}
	d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 1, Wait: MaxWait})
	require.NoError(t, err)
	require.NoError(t, e.Ack("t", d.Handle))
	_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 1, Wait: MaxWait})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		v, err := e.Describe("t")
		return err == nil && v.Partitions[1].HighWatermark == 3
	}, 10*time.Second, time.Millisecond)
	v, err = e.Describe("t")
	require.NoError(t, err)
	p := v.Partitions[1]
	require.True(t, p.Open && p.LogKnown && p.ConsumerKnown)
	require.Equal(t, []int64{0, 3, 0, 1, 0, 1, 2, 0}, []int64{p.Oldest, p.HighWatermark, p.Committed, int64(p.Segments), int64(p.AckedAhead), int64(p.Leases), p.Lag(), p.Missed()})
	require.Positive(t, p.Bytes)
	ms, ok := e.CommittedAt("t", 1, 1)
	require.True(t, ok)
	require.InDelta(t, e.env.Wall().UnixMilli(), ms, 60_000)
	_, ok = e.CommittedAt("t", 1, 3)
	require.False(t, ok, "beyond the end")
	_, err = e.Describe("none")
	require.ErrorIs(t, err, ErrTopicNotFound)
	require.NoError(t, e.Close())
	_, err = e.Describe("t")
	require.ErrorIs(t, err, ErrClosed)

	e, err = Open(dir, Options{})
	require.NoError(t, err)
	defer e.Close()
	v, err = e.Describe("t")
	require.NoError(t, err)
	require.False(t, v.Partitions[1].LogKnown, "nobody has looked yet")
	require.NoError(t, e.Learn("t", 1))
	v, err = e.Describe("t")
	require.NoError(t, err)
	p = v.Partitions[1]
	require.False(t, p.Open, "closed again")
	require.True(t, p.LogKnown && p.ConsumerKnown)
	require.Equal(t, []int64{0, 3, 0, 2}, []int64{p.Oldest, p.HighWatermark, p.Committed, p.Lag()})
	require.ErrorIs(t, e.Learn("t", 7), ErrInvalid)
	learned, ok := e.CommittedAt("t", 1, 1)
	require.True(t, ok)
	require.Equal(t, ms, learned)
	_, ok = e.CommittedAt("t", 1, 2)
	require.False(t, ok, "not without opening the log")

	d, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Offset, "learning has leased nothing")
	require.NoError(t, e.Learn("t", 1))
	v, err = e.Describe("t")
	require.NoError(t, err)
	require.True(t, v.Partitions[1].Open, "one that is used is not closed")
	require.Equal(t, 1, v.Partitions[1].Leases)
}

// A coarse listener counts the same messages.
func TestCoarseEvents(t *testing.T) {
	counts := func(coarse bool) (all map[string]int) {
		all = map[string]int{}
		var mu = make(chan struct{}, 1)
		e, err := Open(t.TempDir(), Options{Coarse: coarse, Listener: func(v Event) {
			mu <- struct{}{}
			defer func() { <-mu }()
			switch v := v.(type) {
			case Stored:
				all["stored"] += v.Records
				all["stored bytes"] += int(v.Bytes)
			case Delivered:
				all["delivered"]++
				all["delivered bytes"] += v.Bytes
			case Settled:
				all["settled"]++
			case Accepted, Dispatched, Leased, ConsumerSnapshot, WaiterJoined, WaiterServed, WaiterLeft, PumpPass, PumpPutBack, Replayed:
				all["detail"]++
			}
		}})
		require.NoError(t, err)
		_, err = e.CreateTopic(TopicSpec{Name: "t", Partitions: 3})
		require.NoError(t, err)
		for range 5 {
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: AnyPartition, Key: []byte("k"), Payload: []byte("payload")}))
			d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: MaxWait})
			require.NoError(t, err)
			require.NoError(t, e.Ack("t", d.Handle))
		}
		require.NoError(t, e.Close())
		return all
	}
	fine, coarse := counts(false), counts(true)
	require.Positive(t, fine["detail"])
	delete(fine, "detail")
	require.Equal(t, map[string]int{"stored": 5, "stored bytes": 40, "delivered": 5, "delivered bytes": 40, "settled": 5}, fine)
	require.Equal(t, fine, coarse, "and none of the details")
}
