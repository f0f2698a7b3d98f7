//go:build unix

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
)

// COM-33: the committer keeps no more than a quarter of the files that the process may open.
func TestConsumerFilesUnderALimit(t *testing.T) {
	limit := limitFiles(t, 4000)
	require.EqualValues(t, limit/4, Options{}.withDefaults().MaxConsumerFiles)

	unlimited := Options{Env: env.OS().WithFS(disk.FS(disk.New(disk.Ordered)))}
	require.Equal(t, 4096, unlimited.withDefaults().MaxConsumerFiles)
}

// limitFiles lowers how many files the process may open until the test ends, and returns how many those are.
func limitFiles(t *testing.T, n uint64) uint64 {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = min(before.Max, n)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
	return low.Cur
}

// COM-33, COM-34, COM-43: many more partitions than a fifth of the files that there may be, each used again and again, before and after a
// restart: a partition needs one file at all times, and everything else it can do without for a while.
func TestMorePartitionsThanFiles(t *testing.T) {
	const partitions = 240
	limitFiles(t, 480)
	dir := filepath.Join(t.TempDir(), "data")
	most := 0
	for life := range 2 {
		e, err := Open(dir, Options{CommitInterval: 100 * time.Millisecond})
		require.NoError(t, err)
		for i := 0; life == 0 && i < partitions; i += 80 {
			_, err := e.CreateTopic(TopicSpec{Name: fmt.Sprintf("t%d", i/80), Partitions: 80})
			require.NoError(t, err)
		}
		for round := range 2 {
			for i := range partitions {
				topic, payload := fmt.Sprintf("t%d", i/80), fmt.Sprintf("%d in %d of %d", i, round, life)
				require.NoError(t, e.Produce(Message{Topic: topic, Partition: int32(i % 80), Payload: []byte(payload)}))
				d, err := e.Consume(&ConsumeRequest{Topic: topic, Partition: int32(i % 80), Wait: 20 * time.Second})
				require.NoError(t, err)
				require.Equal(t, payload, string(d.Payload), "what was acked does not come again, also in the second life")
				require.NoError(t, e.Ack(topic, d.Handle))
			}
			if open, err := os.ReadDir("/proc/self/fd"); err == nil {
				most = max(most, len(open))
			}
		}
		require.NoError(t, e.Close())
	}
	t.Logf("at most %d files were open", most)
}
