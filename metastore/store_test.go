package metastore

import (
	"errors"
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

// TestStore is the contract of Store, on a real and on a simulated disk. Each case may reopen the store.
func TestStore(t *testing.T) {
	suite := map[string]func(t *testing.T, reopen func() Store){
		"create, get, list":     storeCreates,
		"update":                storeUpdates,
		"delete and recreate":   storeDeletes,
		"replace":               storeReplaces,
		"names apart by case":   storeCase,
		"invalid":               storeRefuses,
		"versions":              storeVersions,
		"views are independent": storeViews,
		"closed":                storeClosed,
	}
	for world, root := range map[string]func(t *testing.T) vfs.Dir{
		"os":   func(t *testing.T) vfs.Dir { return openDir(t, vfs.OS{}, t.TempDir()) },
		"disk": func(t *testing.T) vfs.Dir { return openDir(t, disk.FS(disk.New(disk.Adversarial)), "meta") },
	} {
		for name, test := range suite {
			t.Run(world+"/"+name, func(t *testing.T) {
				dir := root(t)
				var last Store
				test(t, func() Store {
					if last != nil {
						require.NoError(t, last.Close())
					}
					last = open(t, dir)
					return last
				})
				require.NoError(t, last.Close())
			})
		}
	}
}

func storeCreates(t *testing.T, reopen func() Store) {
	s := reopen()
	require.Empty(t, s.List("", 0))
	_, found := s.Get("a")
	require.False(t, found)
	for i, name := range []string{"m", "a", "z.9", "b_-B"} {
		require.NoError(t, s.Create(topic(name, i)))
		require.ErrorIs(t, s.Create(topic(name, 99)), ErrExists)
	}
	for range 2 {
		got, found := s.Get("z.9")
		require.True(t, found)
		require.Equal(t, topic("z.9", 2), got)
		require.Equal(t, []string{"a", "b_-B", "m", "z.9"}, names(s.List("", 0)))
		require.Equal(t, []string{"a", "b_-B"}, names(s.List("", 2)))
		require.Equal(t, []string{"m", "z.9"}, names(s.List("b_-B", 2)))
		require.Equal(t, []string{"m"}, names(s.List("c", 1))) // the topic of a page token may be gone
		require.Empty(t, s.List("z.9", 0))
		require.EqualValues(t, 4, s.Version())
		s = reopen()
	}
}

func storeUpdates(t *testing.T, reopen func() Store) {
	s := reopen()
	require.NoError(t, s.Create(topic("a", 1)))
	grow := func(t *Topic) error { t.Partitions, t.MaxInFlight, t.RetentionMs = 7, 5, 0; return nil }
	want := topic("a", 1)
	_ = grow(&want)
	got, err := s.Update("a", want.ID, grow)
	require.NoError(t, err)
	require.Equal(t, want, got)
	version := s.Version()
	got, err = s.Update("a", want.ID, grow) // changes nothing, writes nothing
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, version, s.Version())
	refusal := errors.New("no")
	_, err = s.Update("a", want.ID, func(t *Topic) error { t.Partitions = 9; return refusal })
	require.Equal(t, refusal, err)
	for _, illegal := range []func(*Topic){
		func(t *Topic) { t.Name = "b" },
		func(t *Topic) { t.ID = fmt.Sprintf("%016x", 2) },
		func(t *Topic) { t.CreatedAt++ },
		func(t *Topic) { t.VisibilityMs++ },
		func(t *Topic) { t.Partitions-- },
		func(t *Topic) { t.MaxAckedAhead = 0 },
	} {
		_, err = s.Update("a", want.ID, func(t *Topic) error { illegal(t); return nil })
		require.ErrorIs(t, err, ErrInvalid) // M5
	}
	_, err = s.Update("b", want.ID, grow)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = s.Update("a", "0000000000000bad", grow)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, err, ErrOtherIncarnation)
	got, _ = reopen().Get("a")
	require.Equal(t, want, got)
}

// M5: a name goes from one incarnation to the next in one step, and nothing else changes with it.
func storeReplaces(t *testing.T, reopen func() Store) {
	s := reopen()
	old := topic("a", 1)
	require.NoError(t, s.Create(old))
	next := old
	next.ID = fmt.Sprintf("%016x", 2)
	version := s.Version()
	require.NoError(t, s.Replace(old.ID, next))
	require.Equal(t, version+1, s.Version())
	got, found := s.Get("a")
	require.True(t, found)
	require.Equal(t, next, got)
	require.ErrorIs(t, s.Delete("a", old.ID), ErrOtherIncarnation)
	require.ErrorIs(t, s.Replace(old.ID, next), ErrOtherIncarnation)
	require.ErrorIs(t, s.Replace(next.ID, next), ErrInvalid, "the same incarnation again")
	other := old
	other.Name = "b"
	require.ErrorIs(t, s.Replace(old.ID, other), ErrNotFound)
	for _, illegal := range []func(*Topic){
		func(t *Topic) { t.ID = "short" }, func(t *Topic) { t.CreatedAt++ }, func(t *Topic) { t.VisibilityMs++ },
		func(t *Topic) { t.Partitions++ }, func(t *Topic) { t.MaxInFlight++ },
	} {
		bad := next
		bad.ID = fmt.Sprintf("%016x", 3)
		illegal(&bad)
		require.ErrorIs(t, s.Replace(next.ID, bad), ErrInvalid)
	}
	got, _ = reopen().Get("a")
	require.Equal(t, next, got)
}

func storeDeletes(t *testing.T, reopen func() Store) {
	s := reopen()
	old := topic("a", 1)
	require.NoError(t, s.Create(old))
	require.ErrorIs(t, s.Delete("b", old.ID), ErrNotFound)
	require.ErrorIs(t, s.Delete("a", ""), ErrOtherIncarnation)
	require.NoError(t, s.Delete("a", old.ID))
	require.ErrorIs(t, s.Delete("a", old.ID), ErrNotFound)
	_, found := s.Get("a")
	require.False(t, found)
	successor := topic("A", 2)
	require.NoError(t, s.Create(successor)) // the name in any case is free again
	s = reopen()
	require.ErrorIs(t, s.Delete("A", old.ID), ErrOtherIncarnation)
	got, _ := s.Get("A")
	require.Equal(t, successor, got)
}

// M4
func storeCase(t *testing.T, reopen func() Store) {
	s := reopen()
	require.NoError(t, s.Create(topic("Orders", 1)))
	for range 2 {
		var clash *CaseClashError
		require.ErrorAs(t, s.Create(topic("oRDERS", 2)), &clash)
		require.Equal(t, &CaseClashError{Name: "oRDERS", Existing: "Orders"}, clash)
		_, found := s.Get("orders")
		require.False(t, found)
		s = reopen()
	}
}

func storeRefuses(t *testing.T, reopen func() Store) {
	s := reopen()
	for _, illegal := range []func(*Topic){
		func(t *Topic) { t.Name = ".." },
		func(t *Topic) { t.ID = "" },
		func(t *Topic) { t.ID = "000000000000000G" },
		func(t *Topic) { t.ID = "000000000000000A" },
		func(t *Topic) { t.ID = "00000000000000000" },
		func(t *Topic) { t.Partitions = 0 },
		func(t *Topic) { t.RetentionMs = -1 },
		func(t *Topic) { t.VisibilityMs = 0 },
		func(t *Topic) { t.MaxInFlight = 0 },
		func(t *Topic) { t.MaxAckedAhead = -1 },
	} {
		bad := topic("a", 1)
		illegal(&bad)
		require.ErrorIs(t, s.Create(bad), ErrInvalid, "%+v", bad)
	}
	require.Zero(t, s.Version())
}

func storeVersions(t *testing.T, reopen func() Store) {
	s := reopen()
	last := s.Version()
	step := func(err error) {
		require.NoError(t, err)
		require.Greater(t, s.Version(), last)
		last = s.Version()
	}
	step(s.Create(topic("a", 1)))
	_, err := s.Update("a", topic("a", 1).ID, func(t *Topic) error { t.Partitions++; return nil })
	step(err)
	step(s.Delete("a", topic("a", 1).ID))
	s = reopen()
	require.Equal(t, last, s.Version())
	step(s.Create(topic("a", 2)))
}

func storeViews(t *testing.T, reopen func() Store) {
	s := reopen()
	require.NoError(t, s.Create(topic("a", 1)))
	before := s.List("", 0)
	before[0].Partitions = 99
	got, _ := s.Get("a")
	require.EqualValues(t, 3, got.Partitions)
	_, err := s.Update("a", got.ID, func(t *Topic) error { t.Partitions = 5; return nil })
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Partitions)
}

func storeClosed(t *testing.T, reopen func() Store) {
	s := reopen()
	require.NoError(t, s.Create(topic("a", 1)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Create(topic("b", 2)), ErrClosed)
	require.ErrorIs(t, s.Delete("a", topic("a", 1).ID), ErrClosed)
	_, found := s.Get("a")
	require.True(t, found)
	reopen()
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
