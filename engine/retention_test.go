package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/record"
	"narad/segment"
	"narad/sim"
)

// hourly is a topic of one partition that keeps messages for an hour.
func hourly(visibility time.Duration) TopicSpec {
	s := one(visibility)
	s.RetentionMs = time.Hour.Milliseconds()
	return s
}

// inHours is inWorld for a story that takes some hours.
func inHours(t *testing.T, story func(l *lab)) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	l := &lab{t: t, w: w}
	latency := sim.DefaultLatency()
	latency.Stalls = 0
	l.m = w.Machine("n1", sim.MachineConfig{Latency: latency})
	w.Go("story", func() {
		story(l)
		w.Stop()
	})
	require.NoError(t, w.Run(100*time.Hour))
}

func (l *lab) since(start env.Instant) time.Duration { return l.w.Now().Sub(start) }

func (l *lab) told(keep func(Event) bool) (all []Event) {
	for _, v := range l.events {
		if keep(v) {
			all = append(all, v)
		}
	}
	return all
}

func isRemoval(v Event) bool { _, ok := v.(RetentionRemoved); return ok }
func isJump(v Event) bool    { _, ok := v.(FrontierJumped); return ok }

func (l *lab) oldest() (oldest int64) {
	l.t.Helper()
	l.call(func(e *Engine) {
		s, err := e.Stats("t")
		require.NoError(l.t, err)
		oldest = s[0].Oldest
	})
	return oldest
}

// On a quiet topic a message lives its retention, and is gone soon after; consumers that were behind go on with the oldest one that
// is left, in one step that is told once and survives a crash. RET-03, RET-05, RET-06, INF-32, INF-33, COM-60, FAIL-32, Q-02
func TestRetentionOnAQuietTopic(t *testing.T) {
	for _, stop := range []sim.CrashKind{sim.ProcessCrash, sim.PowerFailure} {
		inHours(t, func(l *lab) {
			l.mustBoot()
			l.topic(hourly(time.Minute))
			start := l.w.Now()
			l.produce("t", "a", "b", "c")
			d := l.mustConsume("t") // a is leased, and stays so until it is gone
			l.sleep(time.Hour - l.since(start) - time.Second)
			require.Empty(t, l.told(isRemoval))
			l.call(func(e *Engine) {
				_, err := e.Replay("t", 0, 0)
				require.NoError(t, err)
			})
			l.sleep(62*time.Minute - l.since(start) + time.Hour/2) // the last record is an hour old, and a round has passed
			require.Equal(t, []Event{RetentionRemoved{
				Key: Key{"t", 0}, Incarnation: l.told(isRemoval)[0].(RetentionRemoved).Incarnation, Segments: 1, Records: 3,
				Bytes: l.told(isRemoval)[0].(RetentionRemoved).Bytes, Oldest: 3,
			}}, l.told(isRemoval))
			l.produce("t", "d", "e")
			l.sleep(time.Second) // until they are committed
			l.call(func(e *Engine) {
				for offset := range int64(3) {
					_, err := e.Replay("t", 0, offset)
					require.ErrorIs(t, err, ErrOffsetGone)
				}
				_, err := e.Replay("t", 0, 3)
				require.NoError(t, err)
			})
			require.Empty(t, l.told(isJump))
			next := l.mustConsume("t")
			require.Equal(t, "d", string(next.Payload))
			require.Equal(t, int64(3), next.Offset)
			require.Equal(t, []Event{FrontierJumped{Key{"t", 0}, -1, 3}}, l.told(isJump))
			require.ErrorIs(t, l.ack(d), ErrLeaseGone)

			l.sleep(3 * time.Second) // the committer writes the jump like an ack
			if stop == sim.PowerFailure {
				l.m.PowerLoss()
			} else {
				l.m.CrashProcess()
			}
			l.mustBoot()
			l.events = nil
			again := l.mustConsume("t")
			require.Equal(t, int64(3), again.Offset)
			require.Empty(t, l.told(isJump), "the jump was persisted")
			require.NoError(t, l.ack(again))
			require.NoError(t, l.ack(l.mustConsume("t")))
			l.sleep(2 * time.Hour)
			_, err := l.consume("t", 0)
			require.ErrorIs(t, err, ErrEmpty)
			require.Equal(t, int64(5), l.oldest(), "acked messages go as well")
			l.produce("t", "f")
			require.Equal(t, int64(5), l.mustConsume("t").Offset, "offsets never begin again")
		})
	}
}

// Under steady traffic nothing goes before its hour, and nothing is left after two. RET-03, RET-04, RET-05
func TestRetentionUnderTraffic(t *testing.T) {
	inHours(t, func(l *lab) {
		require.NoError(t, l.boot(Options{SegmentBytes: 4096}))
		l.topic(hourly(time.Minute))
		var written []env.Instant
		for range 200 {
			l.produce("t", string(make([]byte, 500)))
			written = append(written, l.w.Now())
			l.sleep(90 * time.Second)
			oldest := l.oldest()
			now := l.w.Now()
			if oldest > 0 {
				require.GreaterOrEqual(t, now.Sub(written[oldest-1]), time.Hour)
			}
			if int(oldest) < len(written) {
				require.LessOrEqual(t, now.Sub(written[oldest]), 2*time.Hour+2*time.Minute)
			}
		}
		require.Greater(t, len(l.told(isRemoval)), 10)
	})
}

// Without a retention nothing ever goes. RET-10
func TestRetentionZeroKeepsEverything(t *testing.T) {
	inHours(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(time.Minute))
		l.produce("t", "a")
		l.sleep(8 * time.Hour)
		require.Zero(t, l.oldest())
		require.Equal(t, "a", string(l.mustConsume("t").Payload))
	})
}

// Closed partitions are looked at without being opened, opened when something has expired, and closed again; also after a
// restart, and when nobody ever uses them.
func TestRetentionOfClosedPartitions(t *testing.T) {
	isOpening := func(v Event) bool {
		log, ok := v.(Log)
		_, opened := log.Event.(segment.Recovered)
		return ok && opened
	}
	isClosing := func(v Event) bool {
		log, ok := v.(Log)
		_, closed := log.Event.(segment.Closed)
		return ok && closed
	}
	for _, restart := range []bool{false, true} {
		inHours(t, func(l *lab) {
			o := Options{IdleAfter: 10 * time.Second}
			require.NoError(t, l.boot(o))
			spec := hourly(time.Second)
			spec.Partitions = 3
			l.topic(spec)
			l.produce("t", "a", "b") // in two of three partitions
			l.sleep(time.Minute)
			require.Len(t, l.told(isClosing), 2)
			if restart {
				l.close()
				require.NoError(t, l.boot(o))
			}
			l.events = nil
			l.sleep(58 * time.Minute)
			require.Empty(t, l.told(isOpening))
			l.sleep(7 * time.Minute)
			require.Len(t, l.told(isOpening), 2)
			require.Len(t, l.told(isClosing), 2)
			require.Len(t, l.told(isRemoval), 2)
			l.sleep(4 * time.Hour)
			require.Len(t, l.told(isOpening), 2, "an empty log is left alone")
			l.produce("t", "c")
			l.sleep(time.Minute)
			require.Len(t, l.told(isClosing), 3)
			l.sleep(time.Hour + 6*time.Minute)
			require.Len(t, l.told(isRemoval), 3)
		})
	}
}

// A clock that jumps makes nothing go early. RET-03, Q-53
func TestRetentionAndClocksThatJump(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, 10 * time.Hour, -time.Hour} {
		for _, cold := range []bool{false, true} {
			inHours(t, func(l *lab) {
				o := Options{}
				if cold {
					o.IdleAfter = 10 * time.Second
				}
				require.NoError(t, l.boot(o))
				l.topic(hourly(time.Second))
				start := l.w.Now()
				l.produce("t", "a")
				l.sleep(10 * time.Minute)
				l.m.JumpWall(jump)
				l.sleep(10 * time.Second)
				l.produce("t", "b") // stamped after the jump
				l.sleep(time.Hour - l.since(start) - time.Second)
				require.Empty(t, l.told(isRemoval))
				l.sleep(2*time.Hour + 15*time.Minute + max(0, -jump) - l.since(start))
				require.NotEmpty(t, l.told(isRemoval))
				require.Equal(t, int64(2), l.oldest())
			})
		}
	}
}

// An alteration of the retention is in effect at the next round.
func TestRetentionAltered(t *testing.T) {
	inHours(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(time.Minute))
		l.produce("t", "a")
		l.sleep(10 * time.Hour)
		require.Zero(t, l.oldest())
		alter := func(hours int64) error {
			var err error
			l.call(func(e *Engine) {
				ms := hours * 3_600_000
				_, err = e.AlterTopic("t", TopicPatch{RetentionMs: &ms})
			})
			return err
		}
		require.NoError(t, alter(20))
		l.sleep(time.Hour)
		require.Zero(t, l.oldest())
		require.NoError(t, alter(2))
		l.sleep(2 * time.Minute)
		require.Equal(t, int64(1), l.oldest())
	})
}

// A consumer reads while retention removes under it: it gets the record or the next one that is left. INF-34
func TestRetentionUnderConsumers(t *testing.T) {
	inHours(t, func(l *lab) {
		require.NoError(t, l.boot(Options{SegmentBytes: 4096}))
		l.topic(hourly(time.Hour))
		for range 30 {
			l.produce("t", string(make([]byte, 1000)))
			l.sleep(time.Minute)
		}
		l.sleep(31*time.Minute + 30*time.Second)
		got := map[int64]bool{}
		for range 60 { // two consumers, while the segments go one by one
			waits := []func(){}
			for range 2 {
				waits = append(waits, l.start(func(e *Engine) {
					d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
					if err != nil {
						require.ErrorIs(t, err, ErrEmpty)
						return
					}
					require.False(t, got[d.Offset], "leased twice")
					got[d.Offset] = true
				}))
			}
			for _, wait := range waits {
				wait()
			}
			l.sleep(20 * time.Second)
		}
		require.NotEmpty(t, got)
	})
}

// The codec of the options is what new frames are stored with; what was stored otherwise is still read.
func TestCodecOfTheNode(t *testing.T) {
	inWorld(t, func(l *lab) {
		text := fmt.Sprintf("%2000d", 1)
		for i, codec := range []record.Codec{record.CodecNone, record.CodecZstd, record.CodecNone} {
			require.NoError(t, l.boot(Options{Codec: codec}))
			if i == 0 {
				l.topic(one(time.Minute))
			}
			l.events = nil
			l.produce("t", text)
			l.sleep(time.Second)
			size := int64(0)
			for _, v := range l.events {
				if log, ok := v.(Log); ok {
					if c, ok := log.Event.(segment.Committed); ok {
						size += c.Bytes
					}
				}
			}
			require.Equal(t, codec == record.CodecZstd, size < 200, "%d bytes", size)
			l.close()
		}
		l.mustBoot()
		for range 3 {
			require.Equal(t, text, string(l.mustConsume("t").Payload))
		}
	})
	require.ErrorIs(t, Options{Codec: 2}.Validate(), ErrInvalid)
	require.ErrorIs(t, Options{RetentionInterval: time.Millisecond}.Validate(), ErrInvalid)
	require.ErrorIs(t, Options{ColdRetentionInterval: time.Second}.Validate(), ErrInvalid)
}

// Whatever the wall clock does while the process lives, the cutoff passes no record that is younger than the retention, and
// passes every record that is older by as much as the clock went anywhere. RET-03, RET-05, Q-53
func TestAgeClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const start = 1_700_000_000_000
		type stamped struct{ at, stamp int64 } // true time and wall clock, in milliseconds
		var c ageClock
		var records []stamped
		now, offset, floor, moved := int64(0), int64(0), int64(0), int64(0)
		observe := func() { c.observe(env.Instant(now*int64(time.Millisecond)), start+now+offset) }
		write := func() {
			floor = max(floor, start+now+offset)
			records = append(records, stamped{now, floor})
		}
		observe()
		for range rapid.IntRange(1, 60).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 3).Draw(rt, "steps") {
				now += rapid.Int64Range(0, 20_000).Draw(rt, "pass")
				if rapid.Bool().Draw(rt, "write") {
					write()
				}
			}
			now += rapid.Int64Range(0, 20_000).Draw(rt, "pass")
			if rapid.IntRange(0, 4).Draw(rt, "jump") == 0 {
				by := rapid.SampledFrom([]int64{-3_600_000, -100_000, -2000, 2000, 100_000, 3_600_000}).Draw(rt, "by")
				offset += by
				moved += max(by, -by)
				if rapid.Bool().Draw(rt, "write") {
					write()
				}
			}
			now += rapid.Int64Range(0, 20_000).Draw(rt, "pass")
			observe()
			retention := rapid.Int64Range(1, 1_000_000).Draw(rt, "retention")
			cutoff := c.cutoff(retention)
			for _, r := range records {
				age := now - r.at
				if r.stamp < cutoff {
					require.Greater(rt, age, retention, "of %v, jumps %v", r, c.jumps)
				} else {
					require.LessOrEqual(rt, age, retention+moved, "of %v, jumps %v", r, c.jumps)
				}
			}
		}
		require.LessOrEqual(rt, len(c.jumps), jumpsMax)
	})
}
