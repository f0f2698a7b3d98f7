package raft

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"narad/metastore"
	"narad/metastore/metastoretest"
)

// TestVolumeLost: metadata survives the loss of a minority of volumes: the voter that comes back with an empty one is brought up to
// date, whichever it was, and nothing that was confirmed is missing anywhere. AVL-13
func TestVolumeLost(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, dirs)
		await := func(what string, ok func() bool) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
				require.True(t, time.Now().Before(end), what)
			}
		}
		for round, name := range []string{"a", "b", "c"} {
			await("nobody leads", func() bool {
				err := c.store(c.leader()).Create(metastoretest.Topic(name, round+1))
				return err == nil || errors.Is(err, metastore.ErrExists)
			})
			lost := round // each in its turn: the leader is among them
			c.crash(lost)
			require.NoError(t, os.RemoveAll(dirs[lost]))
			require.NoError(t, os.Mkdir(dirs[lost], 0o700))
			c.start(lost)
			await("it is not brought up to date", func() bool {
				for i := range dirs {
					for _, topic := range []string{"a", "b", "c"}[:round+1] {
						if _, found := c.store(i).Get(topic); !found {
							return false
						}
					}
				}
				return c.store(lost).Ready() == nil
			})
			for i := range dirs {
				require.Equal(t, contents(c.store(0)), contents(c.store(i)))
			}
		}
		for i := range dirs {
			c.crash(i)
		}
	})
}
