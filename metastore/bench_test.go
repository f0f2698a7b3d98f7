package metastore

import (
	"fmt"
	"testing"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"

	"github.com/stretchr/testify/require"
)

var envForTests = env.OS()

func filled(b *testing.B, dir vfs.Dir, topics int) *Local {
	l := open(b, dir)
	for i := range topics {
		require.NoError(b, l.Create(topic(fmt.Sprintf("topic-%06d", i), i)))
	}
	b.Cleanup(func() { l.Close() })
	return l
}

func BenchmarkGet(b *testing.B) {
	for _, topics := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			l := filled(b, openDir(b, disk.FS(disk.New(disk.Ordered)), "meta"), topics)
			name := fmt.Sprintf("topic-%06d", topics/3)
			b.ReportAllocs()
			for b.Loop() {
				if _, found := l.Get(name); !found {
					b.Fatal("lost")
				}
			}
		})
	}
}

// BenchmarkChange is a durable create and delete on the machine's own disk.
func BenchmarkChange(b *testing.B) {
	l := filled(b, openDir(b, vfs.OS{}, b.TempDir()), 100)
	for b.Loop() {
		require.NoError(b, l.Create(topic("x", 1)))
		require.NoError(b, l.Delete("x", topic("x", 1).ID))
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := openDir(b, disk.FS(disk.New(disk.Ordered)), "meta")
	require.NoError(b, filled(b, dir, 10_000).Close())
	for b.Loop() {
		require.NoError(b, open(b, dir).Close())
	}
}
