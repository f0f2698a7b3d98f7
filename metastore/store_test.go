package metastore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"

	"github.com/stretchr/testify/require"
)

// topic returns a valid topic; the number makes the id.
func topic(name string, number int) Topic {
	return Topic{
		Name: name, ID: fmt.Sprintf("%016x", number), Partitions: 3, RetentionMs: 3_600_000, VisibilityMs: 30_000,
		MaxInFlight: 1024, MaxAckedAhead: 1024, CreatedAt: 1_700_000_000,
	}
}

func names(topics []Topic) (out []string) {
	for _, t := range topics {
		out = append(out, t.Name)
	}
	return out
}

func openDir(t testing.TB, fs vfs.FS, path string) vfs.Dir {
	d, err := fs.OpenRoot(path, true)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func open(t testing.TB, dir vfs.Dir) *Local {
	l, err := openLocal(env.OS(), dir)
	require.NoError(t, err)
	return l
}

func TestValidateName(t *testing.T) {
	for _, name := range []string{"a", "A.b_c-9", "...", ".a", "a.", "-", strings.Repeat("x", 200)} {
		require.NoError(t, ValidateName(name), name)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\\b", "a b", "ä", "a\x00", "a:b", "a\n", "\xff", strings.Repeat("x", 201)} {
		require.ErrorIs(t, ValidateName(name), ErrInvalid, name)
	}
}

// TestReadersAndWriters: readers see whole states, and versions never go back, while changes and compactions run.
func TestReadersAndWriters(t *testing.T) {
	l := open(t, openDir(t, disk.FS(disk.New(disk.Adversarial)), "meta"))
	l.compactMin = 2000
	var readers, writers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-done:
					return
				default:
				}
				version := l.Version()
				if version < last {
					t.Errorf("version %d after %d", version, last)
				}
				last = version
				// Each writer has one topic of the pair at a time, with as many partitions as its name says.
				for _, topic := range l.List("", 0) {
					if topic.Partitions != int32(topic.Name[len(topic.Name)-1]-'0') {
						t.Errorf("torn topic %+v", topic)
					}
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 60 {
				a := topic(fmt.Sprintf("w%d-%d", w, 1+i%2), 100*w+i)
				a.Partitions = int32(1 + i%2)
				if err := l.Create(a); err != nil {
					t.Error(err)
				}
				if err := l.Delete(a.Name, a.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	require.EqualValues(t, 480, l.Version())
	require.NoError(t, l.Close())
}
