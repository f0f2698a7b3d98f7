package metastore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// story is a sequence of changes and the state after each: states[n] is what version n shows.
type story struct {
	changes []func(s Store) error
	states  [][]Topic
	more    []string // users and schemas, as moreOf has them
}

// moreOf describes what a store holds beside topics.
func moreOf(s Store) string {
	var b strings.Builder
	for _, u := range s.Users() {
		fmt.Fprintf(&b, "user %s %s %v %v; ", u.Name, u.PasswordHash, u.Grants, u.UpdatedAtMs)
	}
	for _, t := range s.List("", 0) {
		for _, v := range s.Schemas(t.Name) {
			fmt.Fprintf(&b, "schema %s %d %.9s %d; ", t.Name, v.Version, v.Document, len(v.Document))
		}
	}
	return b.String()
}

// newStory makes creates, updates, deletes and a recreation, and changes of users and schemas, with the states that plain maps give.
func newStory() *story {
	st := &story{states: [][]Topic{nil}, more: []string{""}}
	now := map[string]Topic{}
	users, schemas := map[string]string{}, map[string][]string{}
	add := func(change func(s Store) error) {
		st.changes = append(st.changes, change)
		var state []Topic
		for _, t := range now {
			state = append(state, t)
		}
		slices.SortFunc(state, func(a, b Topic) int { return compareNames(a, b) })
		st.states = append(st.states, state)
		more := ""
		for _, name := range slices.Sorted(maps.Keys(users)) {
			more += users[name]
		}
		for _, t := range state {
			more += strings.Join(schemas[t.Name], "")
		}
		st.more = append(st.more, more)
	}
	user := func(name, hash string, grants []Grant, at int64, change func(s Store) error) {
		users[name] = fmt.Sprintf("user %s %s %v %v; ", name, hash, grants, at)
		add(change)
	}
	schema := func(name string, size int) {
		document, id, base := []byte(`"`+strings.Repeat("s", size-2)+`"`), now[name].ID, len(schemas[name])
		schemas[name] = append(schemas[name], fmt.Sprintf("schema %s %d %.9s %d; ", name, base+1, document, size))
		add(func(s Store) error { _, err := s.AppendSchema(name, id, base, document); return err })
	}
	create := func(name string, number int) {
		now[name] = topic(name, number)
		add(func(s Store) error { return s.Create(topic(name, number)) })
	}
	update := func(name string, partitions int32) {
		t := now[name]
		t.Partitions = partitions
		now[name] = t
		add(func(s Store) error {
			_, err := s.Update(name, t.ID, func(t *Topic) error { t.Partitions = partitions; return nil })
			return err
		})
	}
	replace := func(name string, number int) {
		old := now[name].ID
		t := now[name]
		t.ID = topic(name, number).ID
		now[name] = t
		add(func(s Store) error { return s.Replace(old, t) })
	}
	remove := func(name string) {
		id := now[name].ID
		delete(now, name)
		delete(schemas, name)
		add(func(s Store) error { return s.Delete(name, id) })
	}
	create("b", 1)
	create("a", 2)
	update("b", 5)
	remove("a")
	create("A", 3)
	update("A", 4)
	replace("A", 77)
	remove("b")
	create("b", 4)
	// Names so long that entries lie across sectors, which are lost one by one.
	long := strings.Repeat("x", NameLengthMax-1)
	create(long+"1", 5)
	create(long+"2", 6)
	update(long+"1", 9)
	remove(long + "2")
	grants := []Grant{{Action: ActionConsume, Patterns: []string{"a*"}}}
	user("u", "h1", nil, 1, func(s Store) error { return s.CreateUser(User{Name: "u", PasswordHash: []byte("h1"), UpdatedAtMs: 1}) })
	user("u", "h1", grants, 2, func(s Store) error { return s.SetGrants("u", grants, 2) })
	owned := topic("owned", 8)
	owned.Owner = "u"
	now["owned"], schemas["owned"] = owned, []string{"schema owned 1 true 4; "}
	add(func(s Store) error { return s.CreateWithSchema(owned, []byte("true")) })
	user("u", "h2", grants, 3, func(s Store) error { return s.SetPassword("u", []byte("h2"), 3) })
	schema("owned", 700)
	replace("owned", 78)
	free := now["owned"]
	free.Owner = ""
	now["owned"] = free
	delete(users, "u")
	add(func(s Store) error { return s.DeleteUser("u") })
	create(long+"3", 7)
	remove("A")
	return st
}

func compareNames(a, b Topic) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

// tell opens the store of a disk and makes the changes that are not there yet, as far as they succeed. It returns how many
// were answered, and the error that stopped it.
func (st *story) tell(fs vfs.FS, answered func(n int)) error {
	dir, err := fs.OpenRoot("meta", true)
	if err != nil {
		return err
	}
	defer dir.Close()
	l, err := openLocal(env.OS(), dir)
	if err != nil {
		return err
	}
	l.compactMin = 1200 // a compaction every few changes
	answered(int(l.Version()))
	for n := int(l.Version()); n < len(st.changes); n++ {
		if err := st.changes[n](l); err != nil {
			return err
		}
		answered(n + 1)
	}
	return l.Close()
}

// verify opens a disk after a crash and checks that it shows a state between two versions; it returns which.
func (st *story) verify(t testing.TB, d *disk.Disk, low, high int, what any) int {
	dir, err := disk.FS(d).OpenRoot("meta", true)
	require.NoError(t, err, "%v", what)
	defer dir.Close()
	l, err := openLocal(env.OS(), dir)
	require.NoError(t, err, "%v", what)
	version := int(l.Version())
	require.True(t, version >= low && version <= high, "%v: version %d, answered %d, tried %d", what, version, low, high)
	got := l.List("", 0)
	require.Equal(t, len(st.states[version]), len(got), "%v", what)
	for i := range got {
		require.Equal(t, st.states[version][i], got[i], "%v", what)
	}
	require.Equal(t, st.more[version], moreOf(l), "%v", what)
	require.NoError(t, l.Close())
	return version
}

// TestEveryCrash stops the story before every call that changes the disk, as a crash of the process and as every power failure that
// the disk allows. What an open finds holds all answered changes (M1) and is a prefix (M2). What it served then survives
// a further power failure (M3).
func TestEveryCrash(t *testing.T) {
	for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		t.Run(p.String(), func(t *testing.T) {
			st, d := newStory(), disk.New(p)
			images, answered := 0, 0
			check := func(what any) {
				high := min(answered+1, len(st.changes))
				process := d.Clone()
				process.ProcessCrash()
				served := st.verify(t, process, answered, high, what)
				for image := range process.Crashes(0) { // a power failure right after the open
					images++
					st.verify(t, image, served, served, what)
				}
				for image := range d.Crashes(2000) {
					images++
					served := st.verify(t, image, answered, high, what)
					for second := range image.Crashes(0) {
						images++
						st.verify(t, second, served, served, what)
					}
				}
			}
			hook := func(op disk.Op) error {
				if op.Kind.Changes() {
					check(op)
				}
				return nil
			}
			require.NoError(t, st.tell(disk.FS(d, hook), func(n int) { answered = n }))
			check("the end")
			require.Equal(t, len(st.changes), answered)
			t.Logf("%d images", images)
			require.Greater(t, images, 300)
		})
	}
}

// TestCrashInRecovery stops the open that follows a crash before each of its calls, again in every way.
func TestCrashInRecovery(t *testing.T) {
	st, d := newStory(), disk.New(disk.Adversarial)
	images, answered := 0, 0
	reopen := func(image *disk.Disk, what any) {
		low, high := answered, min(answered+1, len(st.changes))
		hook := func(op disk.Op) error {
			if !op.Kind.Changes() {
				return nil
			}
			again := image.Clone()
			again.ProcessCrash()
			st.verify(t, again, low, high, []any{what, op})
			for second := range image.Crashes(100) {
				images++
				st.verify(t, second, low, high, []any{what, op})
			}
			return nil
		}
		dir, err := disk.FS(image, hook).OpenRoot("meta", true)
		require.NoError(t, err)
		l, err := openLocal(env.OS(), dir)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.NoError(t, dir.Close())
	}
	hook := func(op disk.Op) error {
		// Syncs are where most is at stake: before them all is pending.
		if op.Kind == disk.OpSync || op.Kind == disk.OpSyncDir {
			process := d.Clone()
			process.ProcessCrash()
			reopen(process, op)
			for image := range d.Crashes(24) {
				reopen(image, op)
			}
		}
		return nil
	}
	require.NoError(t, st.tell(disk.FS(d, hook), func(n int) { answered = n }))
	t.Logf("%d images", images)
	require.Greater(t, images, 500)
}

// TestEveryFailure fails each call once: the store then refuses changes and goes on reading (M6), a new open finds all that was answered,
// and a power failure after that changes nothing. A failed sync loses its pages, now or at the next power failure.
func TestEveryFailure(t *testing.T) {
	for _, keepVisible := range []bool{true, false} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			failures := 0
			for n := 1; ; n++ {
				st, d := newStory(), disk.New(disk.Adversarial)
				answered, failed := 0, false
				var failedOp disk.Op
				hook := func(op disk.Op) error {
					if op.N != n {
						return nil
					}
					failed, failedOp = true, op
					if op.Kind == disk.OpSync {
						d.SyncFails(op.Ino, keepVisible)
					}
					if op.Kind == disk.OpWrite && op.Len > 20 {
						return &disk.Short{N: int(op.Len) - 7, Err: cause}
					}
					return cause
				}
				err := st.tell(disk.FS(d, hook), func(n int) { answered = n })
				if !failed {
					require.NoError(t, err)
					break
				}
				failures++
				what := fmt.Sprintf("%v fails with %v", failedOp, cause)
				if err != nil {
					require.ErrorIs(t, err, cause, what)
				} // else a call that may fail: a close, or a temporary file that was not there
				high := min(answered+1, len(st.changes))
				images := slices.Collect(d.Crashes(500))
				d.ProcessCrash()
				served := st.verify(t, d, answered, high, what)
				for image := range d.Crashes(0) {
					st.verify(t, image, served, served, what)
				}
				for _, image := range images {
					st.verify(t, image, answered, high, what)
				}
			}
			require.Greater(t, failures, 50)
		}
	}
}

// M6: after a failure every change is refused with the cause, reads go on, and the failed change is not seen.
func TestLatch(t *testing.T) {
	d := disk.New(disk.Adversarial)
	broken := false
	dir := openDir(t, disk.FS(d, func(op disk.Op) error {
		if broken && op.Kind == disk.OpSync {
			broken = false // only once: the next would succeed
			return syscall.EIO
		}
		return nil
	}), "meta")
	l := open(t, dir)
	require.NoError(t, l.Create(topic("a", 1)))
	broken = true
	for i, name := range []string{"b", "c"} {
		err := l.Create(topic(name, i+2))
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, syscall.EIO)
	}
	require.False(t, broken)
	require.ErrorIs(t, l.Delete("a", topic("a", 1).ID), ErrFailed)
	require.Equal(t, []string{"a"}, names(l.List("", 0)))
	require.NoError(t, l.Close())
	l = open(t, dir)
	require.NoError(t, l.Create(topic("c", 3)))
	require.NoError(t, l.Close())
}

// TestRandomCrashes: long random histories with restarts, process crashes and power failures against a list of states.
//
// M1 M2 M3 M5
func TestRandomCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		personality := disk.Personality(rapid.IntRange(0, 1).Draw(t, "personality"))
		d := disk.New(personality)
		states := []map[string]Topic{{}}
		answered, minted := 0, 0
		chooser := choose(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "survives") })
		for range rapid.IntRange(1, 6).Draw(t, "lives") {
			stop := rapid.IntRange(1, 60).Draw(t, "stop") // calls until this life ends
			dead := errors.New("dead")
			hook := func(op disk.Op) error {
				if op.N < stop {
					return nil
				}
				if op.Kind == disk.OpWrite && op.N == stop {
					return &disk.Short{N: rapid.IntRange(0, int(op.Len)).Draw(t, "short"), Err: dead}
				}
				return dead
			}
			l := openAlive(t, disk.FS(d, hook), dead)
			for l != nil && l.failure == nil {
				version := int(l.Version())
				if version < answered || version >= len(states) {
					t.Fatalf("version %d, answered %d of %d", version, answered, len(states)-1)
				}
				states = states[:version+1] // a change without an answer was not made
				answered = version
				state := states[version]
				if got := l.List("", 0); len(got) != len(state) {
					t.Fatalf("%v, want %v", got, state)
				}
				for _, got := range l.List("", 0) {
					if got != state[got.Name] {
						t.Fatalf("%v, want %v", got, state[got.Name])
					}
				}
				name := string(rune('a' + rapid.IntRange(0, 5).Draw(t, "name")))
				next := map[string]Topic{}
				for k, v := range state {
					next[k] = v
				}
				was, exists := state[name]
				var err error
				switch {
				case !exists:
					minted++
					next[name] = topic(name, minted)
					states = append(states, next)
					err = l.Create(next[name])
				case rapid.Bool().Draw(t, "delete"):
					delete(next, name)
					states = append(states, next)
					err = l.Delete(name, was.ID)
				default:
					was.Partitions++
					next[name] = was
					states = append(states, next)
					_, err = l.Update(name, was.ID, func(t *Topic) error { t.Partitions++; return nil })
				}
				if err == nil {
					answered++
				} else if !errors.Is(err, dead) {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "power") {
				d.PowerLoss(chooser)
			} else {
				d.ProcessCrash()
			}
		}
	})
}

type choose func(n int) int

func (c choose) Choose(n int) int { return c(n) }

// openAlive opens the store, or returns nil when the life ends before it is open.
func openAlive(t *rapid.T, fs vfs.FS, dead error) *Local {
	dir, err := fs.OpenRoot("meta", true)
	if err == nil {
		var l *Local
		if l, err = openLocal(env.OS(), dir); err == nil {
			l.compactMin = 700
			return l
		}
	}
	if !errors.Is(err, dead) {
		t.Fatal(err)
	}
	return nil
}
