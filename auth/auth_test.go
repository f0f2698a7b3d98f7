package auth

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"narad/metastore"
)

// users is a metastore of users in memory.
type users struct {
	mu      sync.Mutex
	version uint64
	all     map[string]metastore.User
	reads   int
}

func (u *users) User(name string) (metastore.User, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	found, ok := u.all[name]
	return found, ok
}

func (u *users) Version() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.version
}

func (u *users) put(t testing.TB, name, password string, grants ...metastore.Grant) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.version++
	u.all[name] = metastore.User{Name: name, PasswordHash: hash, Grants: grants}
}

func (u *users) remove(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.version++
	delete(u.all, name)
}

func (u *users) CreateUser(user metastore.User) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, exists := u.all[user.Name]; exists {
		return metastore.ErrUserExists
	}
	u.version++
	u.all[user.Name] = user
	return nil
}

func newTest(t testing.TB) (*Authenticator, *users) {
	u := &users{all: map[string]metastore.User{}}
	a, err := New(u, Options{Cost: bcrypt.MinCost})
	require.NoError(t, err)
	return a, u
}

func TestVerify(t *testing.T) {
	a, u := newTest(t)
	u.put(t, "ann", "secret")
	require.NoError(t, a.Verify(t.Context(), "ann", "secret"))
	for _, c := range [][2]string{{"ann", "Secret"}, {"ann", ""}, {"", "secret"}, {"bob", "secret"}, {"../ann", "secret"}, {"Ann", "secret"}} {
		require.ErrorIs(t, a.Verify(t.Context(), c[0], c[1]), ErrCredentials)
	}
}

// bcrypt ignores what is beyond 72 bytes: it must not let such a password pass.
func TestLongPassword(t *testing.T) {
	a, u := newTest(t)
	longest := fmt.Sprintf("%072d", 7)
	u.put(t, "ann", longest)
	require.NoError(t, a.Verify(t.Context(), "ann", longest))
	require.ErrorIs(t, a.Verify(t.Context(), "ann", longest+"x"), ErrCredentials)
	_, err := a.Hash(t.Context(), longest+"x")
	require.ErrorIs(t, err, ErrPassword)
	_, err = a.Hash(t.Context(), "")
	require.ErrorIs(t, err, ErrPassword)
	hash, err := a.Hash(t.Context(), longest)
	require.NoError(t, err)
	require.NoError(t, bcrypt.CompareHashAndPassword(hash, []byte(longest)))
}

func TestVerifiedCredentials(t *testing.T) {
	a, u := newTest(t)
	u.put(t, "ann", "old")
	u.put(t, "bob", "old")
	require.NoError(t, a.Verify(t.Context(), "ann", "old"))
	holdAll(t, a)() // shows that there is a way to hold all slots
	release := holdAll(t, a)

	// Verified credentials need no slot; other credentials do.
	require.NoError(t, a.Verify(t.Context(), "ann", "old"))
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Verify(short, "bob", "old"), context.DeadlineExceeded)
	release()

	u.put(t, "ann", "new") // a change of the password ends what was verified
	require.ErrorIs(t, a.Verify(t.Context(), "ann", "old"), ErrCredentials)
	require.NoError(t, a.Verify(t.Context(), "ann", "new"))
	u.remove("ann")
	require.ErrorIs(t, a.Verify(t.Context(), "ann", "new"), ErrCredentials)
	require.NotContains(t, a.known, "ann") // nothing is kept of users that are gone
	u.put(t, "ann", "third")               // a namesake
	require.ErrorIs(t, a.Verify(t.Context(), "ann", "new"), ErrCredentials)
	u.put(t, "ann", "new") // the same password, another salt
	require.NoError(t, a.Verify(t.Context(), "ann", "new"))
}

// holdAll takes all slots for verification.
func holdAll(t testing.TB, a *Authenticator) (release func()) {
	for range verifySlots {
		require.NoError(t, a.verifying.take(t.Context(), true))
	}
	return func() {
		for range verifySlots {
			a.verifying.give()
		}
	}
}

// The password changes while bcrypt compares with the old one.
func TestPasswordChangesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "ann", "old")
		release := holdAll(t, a)
		result := make(chan error)
		go func() { result <- a.Verify(t.Context(), "ann", "old") }()
		synctest.Wait()
		u.put(t, "ann", "new")
		release()
		require.ErrorIs(t, <-result, ErrCredentials)
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "old"), ErrCredentials)
	})
}

func TestNameBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "ann", "secret")
		u.put(t, "bob", "secret")
		for i := range nameBurst {
			require.ErrorIs(t, a.Verify(t.Context(), "ann", fmt.Sprint(i)), ErrCredentials)
		}
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "x"), ErrTooMany)
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "secret"), ErrTooMany) // nobody can tell that it was right
		require.NoError(t, a.Verify(t.Context(), "bob", "secret"))
		time.Sleep(nameEvery - 1)
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "x"), ErrTooMany)
		time.Sleep(1)
		require.NoError(t, a.Verify(t.Context(), "ann", "secret"))
		// Success gave its attempt back, and is remembered: from now on failures of others do not lock ann out.
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "x"), ErrCredentials)
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "y"), ErrTooMany)
		require.NoError(t, a.Verify(t.Context(), "ann", "secret"))
		time.Sleep(nameBurst * nameEvery)
		for i := range nameBurst {
			require.ErrorIs(t, a.Verify(t.Context(), "ann", fmt.Sprint(i)), ErrCredentials)
		}
		require.ErrorIs(t, a.Verify(t.Context(), "ann", "z"), ErrTooMany)
		// A name that nobody has is counted like any other.
		for i := range nameBurst {
			require.ErrorIs(t, a.Verify(t.Context(), "nobody", fmt.Sprint(i)), ErrCredentials)
		}
		require.ErrorIs(t, a.Verify(t.Context(), "nobody", "x"), ErrTooMany)
	})
}

// Many attempts at once are no way around the budget.
func TestNameBudgetAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "ann", "secret")
		results := make(chan error, 100)
		for i := range cap(results) {
			go func() { results <- a.Verify(t.Context(), "ann", fmt.Sprint(i)) }()
		}
		looked := 0
		for range cap(results) {
			if err := <-results; err != ErrTooMany {
				require.ErrorIs(t, err, ErrCredentials)
				looked++
			}
		}
		require.Equal(t, nameBurst, looked)
	})
}

func TestNodeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "clean", "secret")
		fail := func(name string) error {
			err := a.Verify(t.Context(), name, fmt.Sprint(time.Now(), name))
			require.Error(t, err)
			return err
		}
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("n", i))
			require.ErrorIs(t, fail(names[i]), ErrCredentials) // clean: charged to the name only
		}
		looked := 0
		for round := range 3 {
			for _, name := range names {
				if a.Verify(t.Context(), name, fmt.Sprint(round)) == ErrCredentials {
					looked++
				}
			}
		}
		require.Equal(t, nodeBurst, looked)
		require.NoError(t, a.Verify(t.Context(), "clean", "secret"))
		require.ErrorIs(t, fail("another"), ErrCredentials)
		time.Sleep(nodeEvery)
		require.ErrorIs(t, fail(names[18]), ErrCredentials)
		require.ErrorIs(t, fail(names[19]), ErrTooMany)
	})
}

func TestBudgetForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget(func() time.Time { return now })
	for i := range 10 * sweepMin {
		_, ok := b.take(fmt.Sprint(i))
		require.True(t, ok)
		now = now.Add(nameEvery)
	}
	require.LessOrEqual(t, len(b.names), sweepMin)
	c, _ := b.take("x")
	require.True(t, c.clean)
	b.giveBack(c)
	require.NotContains(t, b.names, "x")
}

// Whoever leaves fails none of those who wait for the same result, whether it came first or later.
func TestOneFlightForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "ann", "secret")
		release := holdAll(t, a)
		leaving, leave := context.WithCancel(t.Context())
		results := make(chan error, 100)
		verify := func(ctx context.Context) { results <- a.Verify(ctx, "ann", "secret") }
		go verify(leaving)
		synctest.Wait()
		for range cap(results) - 1 {
			go verify(t.Context())
		}
		synctest.Wait()
		require.Equal(t, 1, a.Queued()) // one run for all; and all of them are one attempt
		require.Len(t, a.flights, 1)
		leave()
		require.ErrorIs(t, <-results, context.Canceled)
		release()
		for range cap(results) - 1 {
			require.NoError(t, <-results)
		}
		require.Empty(t, a.flights)
	})
}

// A flight that nobody waits for leaves the queue, and gives back what it was charged.
func TestAbandonedFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "ann", "secret")
		release := holdAll(t, a)
		for i := range 3 * nameBurst {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			require.ErrorIs(t, a.Verify(ctx, "ann", fmt.Sprint(i)), context.Canceled)
			synctest.Wait()
			require.Zero(t, a.Queued())
		}
		require.Empty(t, a.flights)
		require.Empty(t, a.budget.names)
		release()
		require.NoError(t, a.Verify(t.Context(), "ann", "secret"))
	})
}

func TestSlotsPreferCleanNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		require.NoError(t, s.take(t.Context(), false))
		order := make(chan string, 10)
		wait := func(name string, clean bool) {
			go func() {
				if s.take(t.Context(), clean) == nil {
					order <- name
					s.give()
				}
			}()
			synctest.Wait()
		}
		wait("failed 1", false)
		wait("failed 2", false)
		wait("clean 1", true)
		wait("clean 2", true)
		require.Equal(t, 4, s.queued())
		s.give()
		synctest.Wait()
		for _, want := range []string{"clean 1", "clean 2", "failed 1", "failed 2"} {
			require.Equal(t, want, <-order)
		}
		require.Equal(t, 1, s.free)
	})
}

// A slot that is given to one who leaves at the same moment is not lost.
func TestSlotsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		for range 200 {
			require.NoError(t, s.take(t.Context(), true))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if s.take(ctx, false) == nil {
					s.give()
				}
			}()
			synctest.Wait()
			cancel() // the waiter finds both, and takes either
			s.give()
			synctest.Wait()
			require.Equal(t, 1, s.free)
			require.Zero(t, s.queued())
		}
	})
}

// The line that an attempt stands in is that of its name's past.
func TestCleanNamesComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		u.put(t, "clean", "secret")
		require.Error(t, a.Verify(t.Context(), "failed", "x"))
		holdAll(t, a)
		order := make(chan string, 2)
		for _, name := range []string{"failed", "clean"} {
			go func() {
				a.Verify(t.Context(), name, "secret")
				order <- name
			}()
			synctest.Wait()
		}
		require.Equal(t, 1, a.verifying.waiting[0].Len())
		require.Equal(t, 1, a.verifying.waiting[1].Len())
		a.verifying.give()
		require.Equal(t, "clean", <-order)
		require.Equal(t, "failed", <-order)
		for range verifySlots - 1 {
			a.verifying.give()
		}
	})
}

// Attempts that succeed cost the budget of all nothing, also those of a name that has failed.
func TestSuccessIsFree(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget(func() time.Time { return now })
	_, ok := b.take("ann")
	require.True(t, ok)
	for range 10 * nodeBurst {
		c, ok := b.take("ann")
		require.True(t, ok)
		require.False(t, c.clean)
		b.giveBack(c)
	}
	require.Zero(t, b.node.missing(now))
}

func TestMay(t *testing.T) {
	a, u := newTest(t)
	u.put(t, "writer", "x", metastore.Grant{Action: "produce", Patterns: []string{"orders", "logs.*"}})
	u.put(t, "reader", "x", metastore.Grant{Action: "consume", Patterns: []string{"*"}})
	u.put(t, "maker", "x", metastore.Grant{Action: "create", Patterns: []string{"tmp-*"}})
	u.put(t, "nobody", "x")
	u.put(t, "boss", "x", metastore.Grant{Action: "admin"})
	u.all["root"] = metastore.User{Name: "root", Root: true}
	all := []Action{Produce, Consume, Create, Read, Manage, Admin}
	for _, c := range []struct {
		user, topic, owner string
		want               []Action
	}{
		{"writer", "orders", "", []Action{Produce, Read}},
		{"writer", "orders2", "", nil},
		{"writer", "logs.", "", []Action{Produce, Read}},
		{"writer", "logs.a", "", []Action{Produce, Read}},
		{"writer", "logs", "", nil},
		{"writer", "other", "writer", []Action{Read, Manage}}, // ownership gives neither produce nor consume
		{"writer", "orders", "writer", []Action{Produce, Read, Manage}},
		{"writer", "other", "reader", nil},
		{"reader", "orders", "", []Action{Consume, Read}},
		{"maker", "tmp-1", "", []Action{Create, Read}},
		{"nobody", "orders", "", nil},
		{"nobody", "", "", nil},
		{"boss", "orders", "", all},
		{"root", "orders", "writer", all},
		{"gone", "orders", "gone", nil},
		{"gone", "orders", "", nil},
		{"", "orders", "", nil},
	} {
		var got []Action
		for _, action := range all {
			if a.May(c.user, action, c.topic, c.owner) {
				got = append(got, action)
			}
		}
		require.Equal(t, c.want, got, "%s on %s of %q", c.user, c.topic, c.owner)
	}

	u.put(t, "writer", "x") // a revoked grant counts at once
	require.False(t, a.May("writer", Produce, "orders", ""))
	reads := u.reads
	for range 100 {
		a.May("boss", Produce, "orders", "")
	}
	require.LessOrEqual(t, u.reads-reads, 1)
}

func BenchmarkVerified(b *testing.B) {
	a, u := newTest(b)
	u.put(b, "ann", "secret")
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Verify(b.Context(), "ann", "secret"); err != nil {
			b.Fatal(err)
		}
	}
}
