package model

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serving returns a partition with n records and an open shard.
func serving(t *testing.T, n int64) *Partition {
	p := NewPartition(time.Second)
	require.NoError(t, p.Advance(n))
	require.NoError(t, p.OpenShard(&Snapshot{Committed: -1}))
	return p
}

const second = int64(time.Second)

func lease(t *testing.T, p *Partition, offset, nonce, now int64) {
	t.Helper()
	_, err := p.Reserve(offset, Lease{nonce, now + second}, now, 0, p.HW, 1024, 1024)
	require.NoError(t, err)
}

func violates(t *testing.T, invariant string, err error) {
	t.Helper()
	var v *Violation
	require.True(t, errors.As(err, &v), "want a violation of %s, got %v", invariant, err)
	require.Equal(t, invariant, v.Invariant, v.Detail)
}

// Each invariant is seen to fail.
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct {
		invariant string
		do        func(t *testing.T) error
	}{
		"high watermark falls": {"INV-04", func(t *testing.T) error { return serving(t, 5).Advance(4) }},
		"lease above the high watermark": {"INV-04", func(t *testing.T) error {
			_, err := serving(t, 5).Reserve(5, Lease{1, second}, 0, 0, 6, 9, 9)
			return err
		}},
		"lease below the floor": {"INV-04", func(t *testing.T) error {
			_, err := serving(t, 5).Reserve(0, Lease{1, second}, 0, 1, 5, 9, 9)
			return err
		}},
		"two live leases": {"INV-05", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			_, err := p.Reserve(0, Lease{2, second}, 0, 0, 5, 9, 9)
			return err
		}},
		"a nonce is used again": {"INV-05", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			_, err := p.Reserve(1, Lease{1, second}, 0, 0, 5, 9, 9)
			return err
		}},
		"a nonce is used again after a crash": {"INV-05", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			p.Crash(true)
			require.NoError(t, p.OpenShard(&Snapshot{Committed: -1}))
			_, err := p.Reserve(0, Lease{1, second}, 0, 0, 5, 9, 9)
			return err
		}},
		"a lease of the wrong length": {"INV-05", func(t *testing.T) error {
			_, err := serving(t, 5).Reserve(0, Lease{1, second + 1}, 0, 0, 5, 9, 9)
			return err
		}},
		"not the lowest offset": {"INV-16", func(t *testing.T) error {
			_, err := serving(t, 5).Reserve(1, Lease{1, second}, 0, 0, 5, 9, 9)
			return err
		}},
		"beyond the in-flight cap": {"INV-16", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			_, err := p.Reserve(1, Lease{2, second}, 0, 0, 5, 1, 9)
			return err
		}},
		"beyond the acked-ahead cap": {"INV-16", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			lease(t, p, 1, 2, 0)
			require.NoError(t, p.Ack(1, 2, -1, 1))
			_, err := p.Reserve(2, Lease{3, second}, 0, 0, 5, 9, 1)
			return err
		}},
		"settled offset leased": {"INV-07", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			require.NoError(t, p.Ack(0, 1, 0, 1))
			_, err := p.Reserve(0, Lease{2, second}, 0, 0, 5, 9, 9)
			return err
		}},
		"frontier over a hole": {"INV-07", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			lease(t, p, 1, 2, 0)
			return p.Ack(1, 2, 1, 1)
		}},
		"ack without a lease": {"INV-06", func(t *testing.T) error { return serving(t, 5).Ack(0, 1, 0, 0) }},
		"ack with another nonce": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Ack(0, 2, 0, 0)
		}},
		"ack at the expiry": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Ack(0, 1, 0, second)
		}},
		"live handle refused": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Refuse(0, 1, second-1)
		}},
		"extend to the wrong time": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Extend(0, 1, second+2, 1)
		}},
		"a purge too early": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Expire(1, second-1)
		}},
		"a purge too late": {"INV-06", func(t *testing.T) error {
			p := serving(t, 5)
			lease(t, p, 0, 1, 0)
			return p.Expire(0, second)
		}},
		"given back by a stranger": {"INV-18", func(t *testing.T) error { return serving(t, 5).End(0, 1, 0, GivenBack) }},
		"recovered past an ack": {"INV-11", func(t *testing.T) error {
			p := serving(t, 5)
			p.Crash(false)
			return p.OpenShard(&Snapshot{Committed: 0})
		}},
		"recovered acked-ahead past an ack": {"INV-11", func(t *testing.T) error {
			p := serving(t, 5)
			p.Crash(false)
			return p.OpenShard(&Snapshot{Committed: -1, Ahead: []int64{3}})
		}},
		"recovered frontier above the log": {"INV-11", func(t *testing.T) error {
			return NewPartition(0).OpenShard(&Snapshot{Committed: 0})
		}},
		"the page cache's state lost by a process crash": {"INV-08 or INV-09", func(t *testing.T) error {
			p := acked(t)
			p.WroteWindow()
			p.Crash(false)
			return p.OpenShard(&Snapshot{Committed: -1})
		}},
		"the disk's state lost by a power loss": {"INV-08 or INV-09", func(t *testing.T) error {
			p := acked(t)
			p.WroteWindow()
			p.WroteOut()
			p.Crash(true)
			return p.OpenShard(&Snapshot{Committed: -1})
		}},
		"acks lost by a graceful stop": {"INV-10", func(t *testing.T) error {
			p := acked(t)
			p.Stop()
			return p.OpenShard(&Snapshot{Committed: -1})
		}},
		"committer took another state": {"INV-07", func(t *testing.T) error {
			return acked(t).Take(&Snapshot{Committed: -1})
		}},
	} {
		t.Run(name, func(t *testing.T) { violates(t, c.invariant, c.do(t)) })
	}
}

// acked returns a partition whose offset 0 is acked and taken by the committer.
func acked(t *testing.T) *Partition {
	p := serving(t, 5)
	lease(t, p, 0, 1, 0)
	require.NoError(t, p.Ack(0, 1, 0, 1))
	require.NoError(t, p.Take(&Snapshot{Committed: 0}))
	return p
}

// What the windows allow is allowed: acks that were nowhere may come back, and count as such.
func TestCrashWindowsAllow(t *testing.T) {
	p := acked(t)
	p.WroteWindow()
	p.Crash(true) // the window was in the page cache only
	require.NoError(t, p.OpenShard(&Snapshot{Committed: -1}))
	why, err := p.Reserve(0, Lease{2, second}, 0, 0, 5, 9, 9)
	require.NoError(t, err)
	require.Equal(t, CrashedAcked, why)
}

// DEL-03, ORD-01: a redelivery has a cause, and with one it is right although a newer message was delivered and settled before it:
// nothing asks for an order.
func TestCausesOfRedelivery(t *testing.T) {
	p := serving(t, 5)
	next := int64(100)
	lease(t, p, 0, 1, 0)
	lease(t, p, 1, 2, 0)
	require.NoError(t, p.Ack(1, 2, -1, 0)) // a newer one is done with
	require.NoError(t, p.End(0, 1, 0, GivenBack))
	again := func() Ending {
		next++
		why, err := p.Reserve(0, Lease{next, second}, 0, 0, 5, 9, 9)
		require.NoError(t, err)
		return why
	}
	require.Equal(t, GivenBack, again())
	require.NoError(t, p.End(0, next, 0, Nacked))
	require.Equal(t, Nacked, again())
	require.NoError(t, p.End(0, next, 0, GivenBack))
	require.Equal(t, GivenBack, again())
	require.NoError(t, p.Expire(1, second))
	require.Equal(t, Expired, again())
	p.Crash(false)
	require.NoError(t, p.OpenShard(&Snapshot{Committed: -1}))
	require.Equal(t, CrashedLeased, again())
}

// INV-23: a lease that nobody releases is noticed, and not before its time.
func TestOverdue(t *testing.T) {
	p := serving(t, 5)
	lease(t, p, 0, 1, 0)
	_, late := p.Overdue(second+10, 10)
	require.False(t, late)
	o, late := p.Overdue(second+11, 10)
	require.True(t, late)
	require.Zero(t, o)
}

// INV-10, INV-13: a graceful stop keeps of a state that does not fit in a slot the lowest offsets, and all of those.
func TestStopAfterOverflow(t *testing.T) {
	stopped := func() *Partition {
		p := serving(t, 5)
		for o := range int64(4) {
			lease(t, p, o, o+1, 0)
		}
		for _, o := range []int64{1, 2, 3} {
			require.NoError(t, p.Ack(o, o+1, -1, 1))
		}
		require.NoError(t, p.Take(&Snapshot{Committed: -1, Ahead: []int64{1, 2, 3}}))
		p.Truncate(2)
		p.WroteWindow()
		p.Stop()
		return p
	}
	require.NoError(t, stopped().OpenShard(&Snapshot{Committed: -1, Ahead: []int64{1, 2}}))
	violates(t, "INV-10", stopped().OpenShard(&Snapshot{Committed: -1, Ahead: []int64{1, 3}}))
}
