package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim"
)

// lastStart returns whether the last start found that the stop before it was clean.
func (l *lab) lastStart() (clean bool) {
	for _, v := range l.events {
		if o, ok := v.(Opened); ok {
			clean = o.Clean
		}
	}
	return clean
}

// REC-07: the mark of a graceful stop is durably gone before anything else happens: a power loss soon after a start is none.
func TestMarkDoesNotComeBack(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		for range 40 { // an unsynced removal survives some power losses
			l.close()
			l.mustBoot()
			require.True(t, l.lastStart())
			l.m.PowerLoss()
			l.mustBoot()
			require.False(t, l.lastStart())
		}
	})
}

// what a process that was killed had in the page cache is on the disk soon after the next start, although nobody uses the
// partition: a power loss then takes no ack that is older than the window of the contract.
func TestKilledThenPowerLoss(t *testing.T) {
	inWorldWith(t, sim.MachineConfig{}, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		for range 40 {
			l.produce("t", "a", "b", "c")
			require.NoError(t, l.ack(l.mustConsume("t")))
			l.sleep(1500 * time.Millisecond) // the file is there, and its window durable
			require.NoError(t, l.ack(l.mustConsume("t")))
			l.sleep(150 * time.Millisecond) // in the page cache, most times
			l.m.CrashProcess()
			l.mustBoot()
			l.sleep(2 * time.Second)
			l.m.PowerLoss()
			l.mustBoot()
			d := l.mustConsume("t")
			require.Equal(t, "c", string(d.Payload))
			require.NoError(t, l.ack(d))
			l.sleep(3 * time.Second)
		}
	})
}
