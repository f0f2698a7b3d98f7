package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/sim"
)

// A record that fits nowhere is tried again once a second, and the dispatcher rests in between.
func TestHeldRecordsRestBetweenTries(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1})
		idle := func() int64 {
			l.sleep(time.Second)
			before := l.w.Stats().Steps
			l.sleep(10 * time.Second)
			return l.w.Stats().Steps - before
		}
		without := idle()
		l.call(func(e *Engine) {
			info, err := e.Topic("t")
			require.NoError(t, err)
			_, err = e.wal.Append(record.AppendProduce(nil, record.Produce{Topic: "t", Incarnation: info.ID, Partition: 2, Payload: []byte("early")}))
			require.NoError(t, err)
		})
		more := idle() - without
		require.Positive(t, more)
		require.Less(t, more, int64(100), "steps of all tasks in ten seconds")
	})
}

// INF-36, INV-07: which records are corrupt is in memory only, so a partition that has skipped one above its frontier is not idle: closed,
// it would skip it again, and count it again.
func TestIdlePartitionWithSkips(t *testing.T) {
	inWorld(t, func(l *lab) {
		idle := Options{IdleAfter: 2 * time.Second}
		require.NoError(t, l.boot(idle))
		l.topic(one(time.Minute))
		for _, payload := range []string{"first", "second", "third"} {
			l.produce("t", payload)
			l.sleep(time.Second) // a commit of its own
		}
		l.close()
		d := l.m.Disk()
		info, ino, err := d.Lookup(d.Root(), "data/topics/t/p00000/00000000000000000000.log")
		require.NoError(t, err)
		b := make([]byte, info.Size)
		_, err = d.ReadAt(ino, b, 0)
		require.NoError(t, err)
		at := bytes.Index(b, []byte("second"))
		require.Positive(t, at)
		d.FlipBit(ino, int64(at)*8)

		require.NoError(t, l.boot(idle))
		first, third := l.mustConsume("t"), l.mustConsume("t")
		require.Equal(t, "third", string(third.Payload))
		l.call(func(e *Engine) {
			require.NoError(t, e.Nack("t", first.Handle))
			require.NoError(t, e.Nack("t", third.Handle))
		})
		l.sleep(time.Minute)
		p := l.engine.topics["t"].partitions()[0]
		require.NotNil(t, p.shard)
		require.Equal(t, 1, count[CorruptSkipped](l))
		for range 2 {
			require.NoError(t, l.ack(l.mustConsume("t")))
		}
		l.sleep(time.Minute)
		require.Nil(t, p.shard, "the frontier has passed it")
	})
}

// INV-32: a directory that could not be removed is tried again a second later, although nothing else happens.
func TestRemovalIsTriedAgain(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a")
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.m.AimFault(sim.FailEIO, sim.OpRemove, contains(".stale-"))
		l.delete("t")
		l.sleep(janitorRetry / 2)
		require.Equal(t, 1, count[TidyFailed](l))
		require.Zero(t, count[StaleRemoved](l))
		l.sleep(janitorRetry)
		require.Equal(t, 1, count[StaleRemoved](l))
	})
}
