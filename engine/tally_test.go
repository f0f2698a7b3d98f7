package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/inflight"
)

// counts is a Tally and a Listener.
type counts struct {
	delivered, bytes, settled map[Key]int
	events                    []Event
}

func (c *counts) Delivered(key Key, messages, bytes int) {
	c.delivered[key] += messages
	c.bytes[key] += bytes
}

func (c *counts) Settled(key Key, _ env.Instant) { c.settled[key]++ }

func (c *counts) listen(v Event) {
	switch v.(type) {
	case Delivered, Settled, HandleRefused:
		c.events = append(c.events, v)
	}
}

// A tally counts what events would have told, and the listener hears nothing of it.
func TestTally(t *testing.T) {
	c := &counts{map[Key]int{}, map[Key]int{}, map[Key]int{}, nil}
	e, err := Open(t.TempDir(), Options{Listener: c.listen, Tally: c, Coarse: true})
	require.NoError(t, err)
	_, err = e.CreateTopic(TopicSpec{Name: "t", Partitions: 2})
	require.NoError(t, err)
	want := &counts{map[Key]int{}, map[Key]int{}, map[Key]int{}, nil}
	see := func(ds ...*Delivery) (handles []inflight.Handle) {
		for _, d := range ds {
			key := Key{"t", d.Partition}
			want.delivered[key]++
			want.bytes[key] += d.Size()
			want.settled[key]++
			handles = append(handles, d.Handle)
		}
		return handles
	}
	var batch []Message
	for i := range 20 {
		batch = append(batch, Message{Partition: int32(i / 10), Key: []byte("k"), Payload: make([]byte, 1+i)})
	}
	require.NoError(t, e.ProduceBatch("t", batch))
	for left := 20; left > 3; {
		ds, err := e.ConsumeBatch(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 10 * time.Second}, min(7, left-3))
		require.NoError(t, err)
		left -= len(ds)
		for _, err := range e.AckBatch("t", see(ds...), OpAck) {
			require.NoError(t, err)
		}
	}
	for range 3 {
		d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
		require.NoError(t, err)
		see(d)
		require.NoError(t, e.Ack("t", d.Handle))
		require.ErrorIs(t, e.Ack("t", d.Handle), ErrLeaseGone)
	}
	require.NoError(t, e.Close())
	require.Equal(t, want.delivered, c.delivered)
	require.Equal(t, want.bytes, c.bytes)
	require.Equal(t, want.settled, c.settled)
	require.Len(t, c.events, 3, "refused handles")
}

// Deliveries own their bytes unless they are told to share them; either way they are the right ones.
func TestSharedReads(t *testing.T) {
	for _, shared := range []bool{false, true} {
		e, err := Open(t.TempDir(), Options{SharedReads: shared})
		require.NoError(t, err)
		_, err = e.CreateTopic(TopicSpec{Name: "t", Partitions: 1})
		require.NoError(t, err)
		require.NoError(t, e.ProduceBatch("t", []Message{{Key: []byte("a"), Payload: []byte("one")}, {Key: []byte("b"), Payload: []byte("two")}}))
		var first *byte
		for range 2 {
			d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 10 * time.Second})
			require.NoError(t, err)
			require.Equal(t, "a one", string(d.Key)+" "+string(d.Payload))
			if first != nil {
				require.Equal(t, shared, first == &d.Payload[0])
			}
			first = &d.Payload[0]
			require.NoError(t, e.Nack("t", d.Handle))
		}
		require.NoError(t, e.Close())
	}
}
