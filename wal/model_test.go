package wal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/sim/disk"
)

// machine drives one log after the other on one disk and knows what must be in it.
type machine struct {
	t       *rapid.T
	disk    *disk.Disk
	rig     *rig
	options Options
	log     *Log
	reader  *Reader

	records   map[uint64]string // by sequence number
	next      uint64
	stored    uint64
	readAt    uint64
	lastPower uint64 // checkpoint known to be durable
}

func (m *machine) open() {
	var err error
	m.log, err = m.rig.tryOpen(m.options)
	require.NoError(m.t, err)
	require.Equal(m.t, m.next, m.log.Next())
	m.stored, m.lastPower = m.log.Checkpoint()
	m.readAt = m.stored
	m.reader = m.log.NewReader(m.readAt)
}

func (m *machine) append(t *rapid.T) {
	count := rapid.IntRange(1, 5).Draw(t, "count")
	var payloads [][]byte
	for range count {
		payloads = append(payloads, rapid.SliceOfN(rapid.Byte(), 1, 900).Draw(t, "payload"))
	}
	first, err := m.log.Append(payloads...)
	require.NoError(t, err)
	require.Equal(t, m.next, first)
	for _, p := range payloads {
		m.records[m.next] = string(p)
		m.next++
	}
	require.Equal(t, m.next, m.log.Next())
}

func (m *machine) read(t *rapid.T) {
	seq, p, ok, err := m.reader.Next()
	require.NoError(t, err)
	require.Equal(t, m.readAt < m.next, ok)
	if ok {
		require.Equal(t, m.readAt, seq)
		require.Equal(t, m.records[seq], string(p))
		m.readAt++
	}
}

// readBuffered reads one record and then what came along with it, whose bytes stay until the next read.
func (m *machine) readBuffered(t *rapid.T) {
	m.read(t)
	got := map[uint64][]byte{}
	for seq, p, ok := m.reader.Buffered(); ok; seq, p, ok = m.reader.Buffered() {
		require.Equal(t, m.readAt, seq)
		require.Less(t, seq, m.next)
		got[seq] = p
		m.readAt++
	}
	for seq := m.readAt - uint64(len(got)); seq < m.readAt; seq++ {
		require.Equal(t, m.records[seq], string(got[seq]))
	}
}

func (m *machine) seek(t *rapid.T) {
	m.readAt = rapid.Uint64Range(m.stored, m.next).Draw(t, "seq")
	m.reader.Seek(m.readAt)
}

func (m *machine) checkpoint(t *rapid.T) {
	m.stored = rapid.Uint64Range(m.stored, m.next).Draw(t, "seq")
	require.NoError(t, m.log.SetCheckpoint(m.stored))
	stored, durable := m.log.Checkpoint()
	require.Equal(t, m.stored, stored)
	require.LessOrEqual(t, durable, stored)
	if m.readAt < m.stored {
		m.readAt = m.stored
		m.reader.Seek(m.readAt)
	}
}

func (m *machine) reopen(t *rapid.T) {
	require.NoError(t, m.reader.Close())
	require.NoError(t, m.log.Close())
	m.open()
}

// powerLoss drops what is not durable, or any part of it, under the running log and opens the rest.
func (m *machine) powerLoss(t *rapid.T) {
	stored, durable := m.log.Checkpoint()
	image := m.disk.Clone()
	image.PowerLoss(chooser{t})
	m.reader.Close()
	m.log.Close()
	m.disk = image
	events := m.rig.events
	m.rig = newDiskRig(m.rig.t, image)
	m.rig.events = events
	m.open()
	require.GreaterOrEqual(t, m.stored, durable)
	require.LessOrEqual(t, m.stored, stored)
}

// chooser lets rapid draw what a power loss leaves.
type chooser struct{ t *rapid.T }

func (c chooser) Choose(n int) int { return rapid.IntRange(0, n-1).Draw(c.t, "survives") }

func (m *machine) check(t *rapid.T) {
	require.NoError(t, m.log.Err())
	r := m.log.NewReader(m.stored)
	defer r.Close()
	for seq := m.stored; seq < m.next; seq++ {
		got, p, ok, err := r.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, seq, got)
		require.Equal(t, m.records[seq], string(p))
	}
	_, _, ok, err := r.Next()
	require.NoError(t, err)
	require.False(t, ok)
}

// WAL-02, WAL-06, WAL-18, INV-03: random histories of everything a log can do, with restarts and power failures.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := disk.New(rapid.SampledFrom([]disk.Personality{disk.Adversarial, disk.Ordered}).Draw(rt, "disk"))
		m := &machine{t: rt, disk: d, rig: newDiskRig(t, d), records: map[uint64]string{}, next: 1, options: Options{
			SegmentBytes:   rapid.Int64Range(1, 4000).Draw(rt, "segment"),
			BatchBytes:     rapid.IntRange(1, 4000).Draw(rt, "batch"),
			CheckpointSync: rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Millisecond, time.Hour}).Draw(rt, "sync"),
			IdleRollBytes:  rapid.Int64Range(1, 2000).Draw(rt, "idle"),
			Preallocate:    rapid.Bool().Draw(rt, "preallocate"),
		}}
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.append, "read": m.read, "read buffered": m.readBuffered, "seek": m.seek, "checkpoint": m.checkpoint, "reopen": m.reopen,
			"power loss": m.powerLoss, "": m.check,
		})
		require.NoError(rt, m.reader.Close())
		require.NoError(rt, m.log.Close())
	})
}
