//go:build unix

package engine

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
)

// COM-33: the committer keeps no more than a quarter of the files that the process may open.
func TestConsumerFilesUnderALimit(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = min(before.Max, 4000)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	got := Options{}.withDefaults().MaxConsumerFiles
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.EqualValues(t, low.Cur/4, got)

	unlimited := Options{Env: env.OS().WithFS(disk.FS(disk.New(disk.Ordered)))}
	require.Equal(t, 4096, unlimited.withDefaults().MaxConsumerFiles)
}
