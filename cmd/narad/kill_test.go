package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/client"
	"narad/internal/testprog"
	"narad/internal/torture"
)

const (
	killTopic = "orders"
	// killUndone is how old an ack may be at the kill that undoes it: a tick of 100 ms, and 2 s for a machine that is busy.
	killUndone = 2100 * time.Millisecond
)

// A real server process is loaded over HTTP and killed with SIGKILL again and again, sometimes while it recovers from
// the last time; then the queue is drained and all that the clients saw is judged. NARAD_KILLS sets the number of kills
// (default 5); the whole of it is narad-sim torture.
//
// FAIL-10, FAIL-12, FAIL-37, DEL-01, DEL-06, DEL-07, DEL-17, REC-05, REC-07, API-04; see package torture for the invariants.
func TestKill(t *testing.T) {
	kills := 5
	if text := os.Getenv("NARAD_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	path, err := testprog.Narad()
	require.NoError(t, err)
	v, err := torture.Run(t.Context(), torture.Config{
		Binary: path, Dir: t.TempDir(), Seed: uint64(time.Now().UnixNano()), Kills: kills, Topics: 1, Partitions: 3, Producers: 3, Consumers: 5, Window: killUndone,
	})
	require.NoError(t, err)
	t.Log("\n" + v.Text())
	require.Empty(t, v.Violations[:min(len(v.Violations), 20)])
	require.True(t, v.Passed())
	require.Greater(t, v.Produced.OK, 20*kills, "too little load to say anything")
}

// A crash forgets leases and nothing else: at the return, what was leased comes at once, not after its visibility timeout;
// what was acknowledged a while ago does not; an old handle is worth nothing. The directory's lock died with the process.
// (FAIL-10, FAIL-12, FAIL-37, DEL-06, REC-04)
func TestKillRedeliversLeased(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir).serving()
	c := p.client()
	_, err := c.CreateTopic(t.Context(), client.TopicSpec{Name: killTopic, VisibilityMs: time.Hour.Milliseconds()})
	require.NoError(t, err)
	const messages, acked, leased = 10, 3, 4
	for n := range messages {
		require.NoError(t, c.Produce(t.Context(), client.Outgoing{Topic: killTopic, Partition: new(0), Payload: fmt.Appendf(nil, "message %d", n)}))
	}
	var handles []string
	for n := range acked + leased {
		m, err := c.Consume(t.Context(), killTopic, client.ConsumeOptions{Wait: 10 * time.Second})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("message %d", n), string(m.Payload))
		handles = append(handles, m.Handle)
	}
	for _, h := range handles[:acked] {
		require.NoError(t, c.Ack(t.Context(), killTopic, h))
	}
	time.Sleep(killUndone)
	p.kill()

	p = start(t, dir).serving()
	c = p.client()
	for _, h := range handles {
		require.ErrorIs(t, c.Ack(t.Context(), killTopic, h), client.ErrLeaseLost)
	}
	for n := acked; n < messages; n++ {
		m, err := c.Consume(t.Context(), killTopic, client.ConsumeOptions{Wait: 10 * time.Second})
		require.NoError(t, err)
		require.True(t, bytes.HasSuffix(m.Payload, fmt.Appendf(nil, " %d", n)), "%s instead of message %d", m.Payload, n)
		require.NoError(t, c.Ack(t.Context(), killTopic, m.Handle))
	}
	_, err = c.Consume(t.Context(), killTopic, client.ConsumeOptions{})
	require.ErrorIs(t, err, client.ErrEmpty)
	require.Empty(t, p.errorLines())
}
