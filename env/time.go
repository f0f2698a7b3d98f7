package env

import (
	"math"
	"time"
)

// Instant is a point on a machine's monotonic clock, in nanoseconds since an arbitrary origin of that
// process. Instants of different processes are not comparable.
type Instant int64

// Forever is after every instant that a clock can show.
const Forever Instant = math.MaxInt64

// Add returns the instant d later, saturating at Forever.
func (i Instant) Add(d time.Duration) Instant {
	if s := i + Instant(d); d < 0 || s >= i {
		return s
	}
	return Forever
}

// Sub returns how long i is after j, saturating at the longest durations.
func (i Instant) Sub(j Instant) time.Duration {
	d := time.Duration(i - j)
	switch {
	case (d < 0) == (i < j):
		return d
	case i < j:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

// Wall is a reading of a wall clock, in unix nanoseconds. It may jump either way.
type Wall int64

// UnixMilli returns the reading in unix milliseconds, the unit of record timestamps.
func (w Wall) UnixMilli() int64 { return int64(w) / int64(time.Millisecond) }
