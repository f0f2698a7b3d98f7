package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/inflight"
	"narad/record"
)

// batch asks for a batch and returns it.
func (l *lab) batch(r *ConsumeRequest, count int) (got []*Delivery, err error) {
	l.t.Helper()
	r.Topic = "t"
	l.call(func(e *Engine) { got, err = e.ConsumeBatch(r, count) })
	return got, err
}

// into produces n messages to a partition of topic t and waits until they are visible.
func (l *lab) into(partition int32, payloads ...[]byte) {
	l.t.Helper()
	l.call(func(e *Engine) {
		var ms []Message
		for _, p := range payloads {
			ms = append(ms, Message{Partition: partition, Payload: p})
		}
		require.NoError(l.t, e.ProduceBatch("t", ms))
	})
	l.sleep(200 * time.Millisecond)
}

func texts(n int) (payloads [][]byte) {
	for i := range n {
		payloads = append(payloads, fmt.Appendf(nil, "%d", i))
	}
	return payloads
}

func offsets(ds []*Delivery) (list []int64) {
	for _, d := range ds {
		list = append(list, d.Offset)
	}
	return list
}

// A batch is encoded into memory that an earlier one has used, and is what its messages would be alone.
func TestEncodedBatch(t *testing.T) {
	e, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.CreateTopic(TopicSpec{Name: "t", Partitions: 7})
	require.NoError(t, err)
	topic, err := e.topic("t")
	require.NoError(t, err)
	b := new(encodedBatch)
	for _, n := range []int{100, 3, 1, 1000} {
		messages := make([]Message, n)
		for i := range messages {
			messages[i] = Message{Partition: int32(i % 7), Key: fmt.Appendf(nil, "key %d", i)[:i%8%6], Payload: bytes.Repeat([]byte{byte(i + n)}, 1+i%300)}
		}
		b.encode(topic, messages, int64(n))
		require.Len(t, b.records, n)
		require.Len(t, b.partitions, n)
		for i, m := range messages {
			got, err := record.ParseProduce(b.records[i])
			require.NoError(t, err)
			want := record.Produce{
				Topic: "t", Incarnation: topic.info.ID, Key: m.Key, Partition: m.Partition, CreatedMs: int64(n), Payload: m.Payload,
			}
			require.Equal(t, want, got)
			require.Equal(t, m.Partition, b.partitions[i])
		}
		require.Zero(t, testing.AllocsPerRun(10, func() { b.encode(topic, messages, 0) }))
	}
}

// CON-27, CON-28, CON-49: a batch takes a partition's backlog in offset order before it goes on to the next one, each record with
// a lease of its own.
func TestBatchExhaustsOnePartitionFirst(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		for p := range int32(3) {
			l.into(p, texts(4)...)
		}
		got, err := l.batch(&ConsumeRequest{Partition: AnyPartition}, 10)
		require.NoError(t, err)
		require.Len(t, got, 10)
		require.Equal(t, []int64{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, offsets(got))
		require.NotEqual(t, got[0].Partition, got[4].Partition)
		for i, d := range got {
			require.Equal(t, got[i/4*4].Partition, d.Partition)
		}
		for _, d := range got {
			require.NoError(t, l.ack(d))
			require.ErrorIs(t, l.ack(d), ErrLeaseGone)
		}
	})
}

// CON-27, INF-26, Q-18: a batch stops at a partition's cap and goes on to the next.
func TestBatchStopsAtTheCap(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2, MaxInFlight: 3})
		l.into(0, texts(5)...)
		l.into(1, texts(5)...)
		got, err := l.batch(&ConsumeRequest{Partition: AnyPartition}, 100)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1, 2, 0, 1, 2}, offsets(got))
		_, err = l.batch(&ConsumeRequest{Partition: AnyPartition}, 100)
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// CON-29: the record that reaches 4 MiB of keys and payloads is kept and the last; Q-36: counts are clamped to 100.
func TestBatchBounds(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		big := bytes.Repeat([]byte("x"), 900<<10)
		l.into(0, big, big, big, big, big, big)
		got, err := l.batch(&ConsumeRequest{}, 100)
		require.NoError(t, err)
		require.Len(t, got, 5, "four of them are below 4 MiB, the fifth crosses it")
		again, err := l.batch(&ConsumeRequest{}, 100)
		require.NoError(t, err)
		require.Equal(t, []int64{5}, offsets(again), "it was not reserved by the first")
		l.into(0, texts(150)...)
		many, err := l.batch(&ConsumeRequest{}, 1000)
		require.NoError(t, err)
		require.Len(t, many, MaxConsumeBatch)
		_, err = l.batch(&ConsumeRequest{}, 0)
		require.ErrorIs(t, err, ErrInvalid)
	})
}

// CON-30, CON-32, Q-37: what does not fit into the answer is back before the answer leaves; the first record is always in it.
func TestBatchIsCut(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, texts(6)...)
		var asked []int64
		got, err := l.batch(&ConsumeRequest{Fit: func(d *Delivery) bool {
			asked = append(asked, d.Offset)
			return d.Offset != 0 && d.Offset < 3
		}}, 5)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1, 2}, offsets(got))
		require.Equal(t, []int64{0, 1, 2, 3}, asked)
		rest, err := l.batch(&ConsumeRequest{}, 5)
		require.NoError(t, err)
		require.Equal(t, []int64{3, 4, 5}, offsets(rest), "at once, not after a visibility timeout")
		require.Equal(t, 2, l.ended(CauseCut))
	})
}

// ended counts the leases that ended for a cause.
func (l *lab) ended(cause Cause) (n int) {
	for _, v := range l.events {
		if e, ok := v.(LeaseEnded); ok && e.Cause == cause {
			n++
		}
	}
	return n
}

// CON-28: a batch with a wait parks like a single consume, and tops up the record that the wait brought.
func TestBatchIsToppedUp(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		var got []*Delivery
		var err error
		done := l.start(func(e *Engine) {
			got, err = e.ConsumeBatch(&ConsumeRequest{Topic: "t", Wait: 10 * time.Second}, 10)
		})
		l.sleep(100 * time.Millisecond)
		l.into(0, texts(4)...) // one commit: all of them are there when the first is handed over
		done()
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1, 2, 3}, offsets(got))
	})
}

// INF-37: a batch whose request is cancelled gives everything back at once.
func TestBatchCancelled(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, texts(3)...)
		r := &ConsumeRequest{}
		r.Cancel()
		_, err := l.batch(r, 10)
		require.ErrorIs(t, err, ErrCancelled)
		got, err := l.batch(&ConsumeRequest{}, 10)
		require.NoError(t, err)
		require.Len(t, got, 3)
	})
}

// CON-19: a record whose lease lapsed while the rest of the batch was read is not part of the answer.
func TestBatchLeavesOutWhatLapsed(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(100 * time.Millisecond))
		l.into(0, texts(3)...)
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			b := batch{topic: topic, count: 10}
			require.NoError(t, b.scan(AnyPartition))
			require.Len(t, b.items, 3)
			e.env.Sleep(200 * time.Millisecond)
			b.answer(nil)
			require.Empty(t, b.items)
		})
		got, err := l.batch(&ConsumeRequest{}, 10)
		require.NoError(t, err)
		require.Len(t, got, 3)
	})
}

// CON-49: an offset that comes back while a batch is read does not follow a higher one in it.
func TestBatchStaysInOrder(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, texts(4)...)
		first := l.mustConsume("t")
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			b := batch{topic: topic, count: 2}
			require.NoError(t, b.scan(AnyPartition))
			require.Equal(t, []int64{1, 2}, offsets(b.items))
			require.NoError(t, e.Nack("t", first.Handle))
			b.count = 10
			require.NoError(t, b.scan(AnyPartition))
			require.Equal(t, []int64{1, 2}, offsets(b.items))
		})
		require.EqualValues(t, 0, l.mustConsume("t").Offset)
	})
}

// CON-15, CON-14: a partition that cannot be opened fails a scan when the scan reaches it; records before it are delivered.
func TestScanFailsWhereItFails(t *testing.T) {
	for _, partitions := range []int{3, manyPartitions, manyPartitions + 1} {
		inWorld(t, func(l *lab) {
			l.mustBoot()
			l.topic(TopicSpec{Name: "t", Partitions: partitions})
			broken := errors.New("planted")
			l.call(func(e *Engine) {
				topic, err := e.topic("t")
				require.NoError(t, err)
				bad := topic.partitions()[1]
				bad.mu.Lock()
				bad.gone = broken
				bad.mu.Unlock()
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("x")}))
				e.env.Sleep(200 * time.Millisecond)
				topic.start.Store(uint32(partitions - 1)) // the next scan begins at 0
				d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
				require.NoError(t, err)
				require.EqualValues(t, 0, d.Partition)
				topic.start.Store(uint32(partitions - 1))
				_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
				require.ErrorIs(t, err, broken)
				require.NoError(t, e.Nack("t", d.Handle))
				topic.start.Store(uint32(partitions - 1))
				got, err := e.ConsumeBatch(&ConsumeRequest{Topic: "t", Partition: AnyPartition}, 10)
				require.NoError(t, err)
				require.Len(t, got, 1)
				bad.mu.Lock()
				bad.gone = nil
				bad.mu.Unlock()
			})
		})
	}
}

// CON-12, LOG-22: a scan that finds a record on its first partition opens no other log.
func TestScanOpensOnlyTheFirst(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 4})
		l.into(2, texts(1)...)
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			topic.start.Store(1) // the next scan begins at 2
			_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
			require.NoError(t, err)
			for i, p := range topic.partitions() {
				log, _, err := p.opened()
				require.NoError(t, err)
				require.Equal(t, i == 2, log != nil, "partition %d", i)
			}
		})
	})
}

// scans begin at each partition in turn.
func TestScansRotate(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 4})
		for p := range int32(4) {
			l.into(p, texts(1)...)
		}
		var seen []int32
		for range 4 {
			seen = append(seen, l.mustConsume("t").Partition)
		}
		slices.Sort(seen)
		require.Equal(t, []int32{0, 1, 2, 3}, seen)
	})
}

// CON-09, CON-10, Q-50: a replay reads what is stored, settled or not, and changes nothing.
func TestReplay(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, []byte("a"), []byte("b"))
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.call(func(e *Engine) {
			for offset, want := range []string{"a", "b"} {
				d, err := e.Replay("t", 0, int64(offset))
				require.NoError(t, err)
				require.Equal(t, want, string(d.Payload))
				require.Zero(t, d.Handle)
			}
			_, err := e.Replay("t", 0, 2)
			require.ErrorIs(t, err, ErrEmpty)
			_, err = e.Replay("t", 0, -1)
			require.ErrorIs(t, err, ErrInvalid)
			_, err = e.Replay("t", 1, 0)
			require.ErrorIs(t, err, ErrInvalid)
			_, err = e.Replay("t", AnyPartition, 0)
			require.ErrorIs(t, err, ErrInvalid)
			_, err = e.Replay("u", 0, 0)
			require.ErrorIs(t, err, ErrTopicNotFound)
			s, err := e.Stats("t")
			require.NoError(t, err)
			require.EqualValues(t, 0, s[0].Committed)
			require.Zero(t, s[0].Leases)
		})
		require.Equal(t, 1, count[Delivered](l))
		require.Equal(t, 2, count[Replayed](l))
	})
}

// REC-01, CON-09: a replay does not load consumer state.
func TestReplayTouchesNoShard(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, texts(1)...)
		l.call(func(e *Engine) {
			_, err := e.Replay("t", 0, 0)
			require.NoError(t, err)
		})
		require.Zero(t, count[ShardOpened](l))
	})
}

// API-16: each handle of a batch ack has the answer that the single call would give.
func TestAckBatch(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.into(0, texts(3)...)
		got, err := l.batch(&ConsumeRequest{}, 10)
		require.NoError(t, err)
		h := []inflight.Handle{got[0].Handle, got[0].Handle, {Partition: 9, Nonce: 1}, got[2].Handle}
		l.call(func(e *Engine) {
			errs := e.AckBatch("t", h, OpAck)
			require.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], ErrLeaseGone)
			require.ErrorIs(t, errs[2], ErrLeaseGone)
			require.NoError(t, errs[3])
			require.NoError(t, e.AckBatch("t", []inflight.Handle{got[1].Handle}, OpExtend)[0])
			require.NoError(t, e.AckBatch("t", []inflight.Handle{got[1].Handle}, OpNack)[0])
			require.ErrorIs(t, e.AckBatch("u", []inflight.Handle{got[1].Handle}, OpNack)[0], ErrTopicNotFound)
		})
		require.EqualValues(t, 1, l.mustConsume("t").Offset)
	})
}

// WAL-13: a batch is checked before anything of it is stored, and stored with consecutive sequence numbers.
func TestProduceBatch(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.call(func(e *Engine) {
			refused := func(want error, index int, ms ...Message) {
				err := e.ProduceBatch("t", ms)
				require.ErrorIs(t, err, want)
				var b *BatchError
				if index >= 0 {
					require.ErrorAs(t, err, &b)
					require.Equal(t, index, b.Index)
					require.ErrorContains(t, err, fmt.Sprintf("message %d: ", index))
				}
			}
			ok := Message{Partition: AnyPartition, Payload: []byte("x")}
			refused(ErrInvalid, -1)
			refused(ErrInvalid, -1, make([]Message, MaxProduceBatch+1)...)
			refused(ErrInvalid, 1, ok, Message{Partition: AnyPartition})
			refused(ErrTooLarge, 2, ok, ok, Message{Partition: AnyPartition, Payload: make([]byte, MaxPayload+1)})
			refused(ErrInvalid, 0, Message{Partition: 2, Payload: []byte("x")})
			refused(ErrInvalid, 1, ok, Message{Topic: "u", Payload: []byte("x")})
			require.ErrorIs(t, e.ProduceBatch("u", []Message{ok}), ErrTopicNotFound)
		})
		require.Zero(t, count[Accepted](l), "nothing was stored")
		l.into(AnyPartition, texts(50)...)
		var seqs []uint64
		for _, v := range l.events {
			if a, ok := v.(Accepted); ok {
				seqs = append(seqs, a.Seq)
			}
		}
		require.Len(t, seqs, 50)
		for i, seq := range seqs {
			require.Equal(t, seqs[0]+uint64(i), seq)
		}
		require.Equal(t, 50, count[Dispatched](l))
	})
}
