package inspect

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/env"
	"narad/segment"
)

// makeStore lets a broker produce, deliver and ack, and returns its directory, copied while it ran and left by a
// graceful stop.
func makeStore(t *testing.T) (crashed, stopped string) {
	stopped, crashed = t.TempDir(), filepath.Join(t.TempDir(), "crashed")
	e, err := engine.Open(stopped, engine.Options{WALSegmentBytes: 4096, SegmentBytes: 4096, CommitInterval: 50 * time.Millisecond})
	require.NoError(t, err)
	for _, name := range []string{"orders", "mail"} {
		_, err := e.CreateTopic(engine.TopicSpec{Name: name, Partitions: 2})
		require.NoError(t, err)
	}
	for i := range 60 {
		require.NoError(t, e.Produce(engine.Message{Topic: "orders", Partition: int32(i % 2), Payload: fmt.Appendf(nil, "order %d %s", i, strings.Repeat("x", 200))}))
	}
	var second *engine.Delivery
	for i := range 20 {
		d, err := e.Consume(&engine.ConsumeRequest{Topic: "orders", Partition: int32(i % 2), Wait: 5 * time.Second})
		require.NoError(t, err)
		if i == 4 {
			second = d // not acked: the rest is settled ahead of it
			continue
		}
		require.NoError(t, e.Ack("orders", d.Handle))
	}
	require.NotNil(t, second)
	require.Eventually(t, func() bool { return settledPartitions(t, stopped) == 2 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, os.CopyFS(crashed, os.DirFS(stopped)))

	_, err = Run(env.OS(), stopped, Options{Verify: true})
	require.ErrorIs(t, err, ErrInUse)
	live, err := Run(env.OS(), stopped, Options{})
	require.NoError(t, err)
	require.Equal(t, Clean, live.Outcome)

	require.NoError(t, e.Close())
	return crashed, stopped
}

// settledPartitions counts the partitions whose consumer.ahead holds all the acks of makeStore.
func settledPartitions(t *testing.T, dir string) (n int) {
	r, err := Run(env.OS(), dir, Options{})
	require.NoError(t, err)
	visit(r.Root, 0, func(node *Node, _ int) {
		if a := node.Ahead; a != nil && a.Newest >= 0 {
			s := a.Slots[a.Newest]
			n += count(s.Frontier == 9 || s.Frontier == 1 && s.Ahead == 7)
		}
	})
	return n
}

func verifyDir(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Run(env.OS(), dir, Options{Verify: true})
	require.NoError(t, err)
	return r
}

// What a broker leaves is clean, and its consumer state is recognised as its own.
func TestBrokersStoreIsClean(t *testing.T) {
	crashed, stopped := makeStore(t)
	for _, dir := range []string{crashed, stopped} {
		r := verifyDir(t, dir)
		require.Equal(t, Clean, r.Outcome, "%+v", r.Findings)
		require.Empty(t, r.Findings)
		var owned, ahead int
		visit(r.Root, 0, func(n *Node, _ int) {
			if n.Ahead == nil || n.Ahead.Newest < 0 {
				return
			}
			s := n.Ahead.Slots[n.Ahead.Newest]
			require.NotNil(t, s.Owned)
			require.True(t, *s.Owned, "the identity is computed as the engine does")
			owned++
			ahead += s.Ahead
		})
		require.Equal(t, 2, owned)
		require.NotZero(t, ahead)
	}
}

// hashTree covers names, contents and times of everything in a directory.
func hashTree(t *testing.T, dir string) string {
	h := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %v %d %v\n", p, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if !e.IsDir() {
			b, err := os.ReadFile(p)
			h.Write(b)
			return err
		}
		return nil
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// Nothing is changed, whatever is looked at and however damaged it is; also not where a broker would cut, remove or
// make something.
func TestNothingIsChanged(t *testing.T) {
	crashed, stopped := makeStore(t)
	for _, dir := range []string{crashed, stopped} {
		damageStore(t, dir)
		before := hashTree(t, dir)
		require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			for _, o := range []Options{{}, {Verify: true}, {Records: true}} {
				r, err := Run(env.OS(), p, o)
				if err == nil && p == dir && o.Verify {
					require.Equal(t, Damaged, r.Outcome)
				}
			}
			return err
		}))
		require.Equal(t, before, hashTree(t, dir))
	}
	require.NoError(t, os.Remove(filepath.Join(crashed, "lock")))
	before := hashTree(t, crashed)
	r := verifyDir(t, crashed)
	require.False(t, r.Locked)
	require.Equal(t, before, hashTree(t, crashed), "no lock is made")
}

func damageStore(t *testing.T, dir string) {
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if len(b) > 60 {
			b[50] ^= 4
			b = b[:len(b)-1]
		}
		if err == nil {
			err = os.WriteFile(p, b, 0o600)
		}
		return err
	}))
	for _, name := range []string{"topics/x.tmp", "topics/orders/p00000/y.log.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
}

// Where a report says that the broker refuses to start it does, and where it does not say so the broker starts.
func TestVerdictIsTheBrokers(t *testing.T) {
	crashed, _ := makeStore(t)
	made := t.TempDir() // with more than one segment in each log
	writeFixture(t, made)
	require.NoError(t, os.Remove(filepath.Join(made, "clean")))
	refusals := 0
	for _, dir := range []string{crashed, made} {
		for _, name := range damageable(t, dir) {
			for _, change := range changes() {
				refusals += count(requireVerdict(t, dir, name, change))
			}
		}
	}
	require.Greater(t, refusals, 40)
}

// damageable lists the files that a broker reads when it starts, and some that it does not.
func damageable(t *testing.T, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err == nil && !e.IsDir() && rel != "lock" && !strings.Contains(rel, "p00001") {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// changes are what happens to the bytes of a file; nil removes it.
func changes() (list []func(b []byte) []byte) {
	list = append(list, func([]byte) []byte { return nil })
	for _, part := range []float64{0, 0.1, 0.3, 0.6, 0.8, 0.97} {
		at := func(b []byte) int { return max(0, min(int(part*float64(len(b))), len(b)-1)) }
		list = append(list, func(b []byte) []byte {
			if len(b) > 0 {
				b[at(b)] ^= 2
			}
			return b
		}, func(b []byte) []byte { return b[:at(b)] })
	}
	return list
}

func requireVerdict(t *testing.T, from, name string, change func(b []byte) []byte) (refused bool) {
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	file := filepath.Join(dir, name)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	if b = change(b); b == nil {
		require.NoError(t, os.Remove(file))
	} else {
		require.NoError(t, os.WriteFile(file, b, 0o600))
	}
	r := verifyDir(t, dir)
	says := false
	for _, f := range r.Findings {
		says = says || strings.Contains(f.Effect, "refuses to start")
	}
	e, err := engine.Open(dir, engine.Options{WALSegmentBytes: 4096, SegmentBytes: 4096})
	require.Equal(t, err != nil, says, "%s of %d bytes: the broker says %v, the report %+v", name, len(b), err, r.Findings)
	if err == nil {
		require.NoError(t, e.Close())
	}
	return err != nil
}

// The offsets that a report calls lost are those that a partition log will not give, and it ends where the report
// says.
func TestLostOffsetsAreTheBrokers(t *testing.T) {
	m := fixture(t)
	m.files["topics/orders/p00000/"] = plain{}
	m = m.without("clean").without(aheadPath).without(levelPath)
	rng := rand.New(rand.NewPCG(3, 4))
	lost := 0
	for i := range 300 {
		other := m
		for range 1 + rng.IntN(3) {
			name := []string{log1, log2}[rng.IntN(2)]
			other = other.with(name, damageLog(rng, other.bytes(name)))
		}
		r, err := other.run("/topics/orders/p00000", Options{Verify: true})
		require.NoError(t, err)
		dir := t.TempDir()
		for _, name := range []string{log1, log2} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), other.bytes(name), 0o600))
		}
		log, err := segment.Open(env.OS(), openDir(t, dir), segment.Options{})
		require.NoError(t, err)
		require.Equal(t, log.HighWatermark(), r.Root.Partition.HighWatermark, "round %d: %+v", i, r.Findings)
		unreadable := int64(0)
		for offset := log.Oldest(); offset < log.HighWatermark(); offset++ {
			var c *segment.CorruptError
			if _, err := log.Read(offset); errors.As(err, &c) {
				unreadable++
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, unreadable, r.Root.Partition.Lost, "round %d: %+v", i, r.Findings)
		lost += int(unreadable)
		require.NoError(t, log.Close())
	}
	require.NotZero(t, lost)
}

// damageLog flips, overwrites, doubles or cuts a part of a log file.
func damageLog(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	if len(b) == 0 {
		return b
	}
	at := rng.IntN(len(b))
	to := min(len(b), at+1+rng.IntN(80))
	switch rng.IntN(5) {
	case 0:
		b[at] ^= byte(1 + rng.IntN(255))
	case 1:
		clear(b[at:to])
	case 2:
		b = b[:at]
	case 3:
		b = slices.Concat(b[:at], b[to:])
	case 4:
		copy(b[at:to], b[rng.IntN(len(b)):]) // a misplaced write
	}
	return b
}
