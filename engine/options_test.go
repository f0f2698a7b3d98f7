package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/record"
)

// How often closed partitions are looked at is counted in rounds of retention.
func TestColdRetentionInterval(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		cold     int // of twelve rounds
	}{{0, 2}, {time.Minute, 12}, {2*time.Minute + 59*time.Second, 6}, {100 * 365 * 24 * time.Hour, 0}} {
		inWorld(t, func(l *lab) {
			require.NoError(t, l.boot(Options{ColdRetentionInterval: c.interval}))
			l.sleep(12*time.Minute + time.Second)
			rounds, cold := 0, 0
			for _, v := range l.events {
				if run, ok := v.(RetentionRun); ok {
					rounds++
					if run.Cold {
						cold++
					}
				}
			}
			require.Equal(t, 12, rounds)
			require.Equal(t, c.cold, cold, "%v", c.interval)
		})
	}
}

// Consumer state is in the page cache after one writeout interval. CFG-02, TIM-04
func TestWriteoutInterval(t *testing.T) {
	for _, interval := range []time.Duration{0, 20 * time.Millisecond} {
		inWorld(t, func(l *lab) {
			require.NoError(t, l.boot(Options{WriteoutInterval: interval}))
			l.topic(one(time.Minute))
			l.produce("t", "x")
			l.ack(l.mustConsume("t"))
			l.sleep(2 * time.Second) // the first window of a partition is another matter
			l.produce("t", "y")
			d := l.mustConsume("t")
			l.events = nil
			l.ack(d)
			l.sleep(45 * time.Millisecond)
			written := false
			for _, v := range l.events {
				if c, ok := v.(Consumer); ok {
					_, is := c.Event.(committer.WindowWritten)
					written = written || is
				}
			}
			if interval > 0 {
				require.True(t, written)
			}
		})
	}
	for _, bad := range []time.Duration{9 * time.Millisecond, 101 * time.Millisecond} {
		require.ErrorIs(t, Options{WriteoutInterval: bad}.Validate(), ErrInvalid)
	}
}

// What is not configured, and documented. CFG-08, CFG-10
func TestFixedTimes(t *testing.T) {
	require.Equal(t, time.Second, purgeEvery)
	require.Equal(t, 50*time.Millisecond, lingerMax)
}

func TestCompressionLevelIsChecked(t *testing.T) {
	require.NoError(t, Options{CompressionLevel: record.LevelBest}.Validate())
	require.ErrorIs(t, Options{CompressionLevel: record.LevelBest + 1}.Validate(), ErrInvalid)
}
