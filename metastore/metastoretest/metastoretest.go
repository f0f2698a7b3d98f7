// Package metastoretest is the contract of metastore.Store as tests, which every implementation passes.
package metastoretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"narad/metastore"

	"github.com/stretchr/testify/require"
)

// Topic returns a valid topic; the number makes the id.
func Topic(name string, number int) metastore.Topic {
	return metastore.Topic{
		Name: name, ID: fmt.Sprintf("%016x", number), Partitions: 3, RetentionMs: 3_600_000, VisibilityMs: 30_000,
		MaxInFlight: 1024, MaxAckedAhead: 1024, CreatedAt: 1_700_000_000,
	}
}

// User returns a valid user.
func User(name string) metastore.User {
	return metastore.User{
		Name: name, PasswordHash: []byte("hash of " + name), CreatedAtMs: 1, UpdatedAtMs: 1,
		Grants: []metastore.Grant{{Action: metastore.ActionProduce, Patterns: []string{name + "-*", "x"}}, {Action: metastore.ActionAdmin}},
	}
}

func names(topics []metastore.Topic) (out []string) {
	for _, t := range topics {
		out = append(out, t.Name)
	}
	return out
}

// Open starts a test with an empty store. What it returns opens that store, and each time again as it is after a restart.
type Open func(t *testing.T) (open func() metastore.Store)

// Run runs the contract.
func Run(t *testing.T, start Open) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, reopen func() metastore.Store)
	}{
		{"create, get, list", storeCreates},
		{"update", storeUpdates},
		{"delete and recreate", storeDeletes},
		{"replace", storeReplaces},
		{"names apart by case", storeCase},
		{"invalid", storeRefuses},
		{"versions", storeVersions},
		{"views are independent", storeViews},
		{"closed", storeClosed},
		{"paging", storePages},
		{"schemas", storeSchemas},
		{"schema budgets", storeSchemaBudgets},
		{"users", storeUsers},
		{"users that cannot be", storeRefusesUsers},
		{"field-scoped changes of users", storeFields},
		{"owners", storeOwners},
		{"what readers hold", storeHeld},
		{"racing changes", storeRaces},
		{"racing schemas", storeSchemaRaces},
		{"racing creations", storeCreateRaces},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := start(t)
			var last metastore.Store
			c.test(t, func() metastore.Store {
				if last != nil {
					require.NoError(t, last.Close())
				}
				last = open()
				return last
			})
			require.NoError(t, last.Close())
		})
	}
}

func storeCreates(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.Empty(t, s.List("", 0))
	_, found := s.Get("a")
	require.False(t, found)
	for i, name := range []string{"m", "a", "z.9", "b_-B"} {
		require.NoError(t, s.Create(Topic(name, i)))
		require.ErrorIs(t, s.Create(Topic(name, 99)), metastore.ErrExists)
	}
	for range 2 {
		got, found := s.Get("z.9")
		require.True(t, found)
		require.Equal(t, Topic("z.9", 2), got)
		require.Equal(t, []string{"a", "b_-B", "m", "z.9"}, names(s.List("", 0)))
		require.Equal(t, []string{"a", "b_-B"}, names(s.List("", 2)))
		require.Equal(t, []string{"m", "z.9"}, names(s.List("b_-B", 2)))
		require.Equal(t, []string{"m"}, names(s.List("c", 1))) // the topic of a page token may be gone
		require.Empty(t, s.List("z.9", 0))
		require.EqualValues(t, 4, s.Version())
		s = reopen()
	}
}

func storeUpdates(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.Create(Topic("a", 1)))
	grow := func(t *metastore.Topic) error { t.Partitions, t.MaxInFlight, t.RetentionMs = 7, 5, 0; return nil }
	want := Topic("a", 1)
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
	_, err = s.Update("a", want.ID, func(t *metastore.Topic) error { t.Partitions = 9; return refusal })
	require.Equal(t, refusal, err)
	for _, illegal := range []func(*metastore.Topic){
		func(t *metastore.Topic) { t.Name = "b" },
		func(t *metastore.Topic) { t.ID = fmt.Sprintf("%016x", 2) },
		func(t *metastore.Topic) { t.CreatedAt++ },
		func(t *metastore.Topic) { t.VisibilityMs++ },
		func(t *metastore.Topic) { t.Partitions-- },
		func(t *metastore.Topic) { t.MaxAckedAhead = 0 },
	} {
		_, err = s.Update("a", want.ID, func(t *metastore.Topic) error { illegal(t); return nil })
		require.ErrorIs(t, err, metastore.ErrInvalid) // M5
	}
	_, err = s.Update("b", want.ID, grow)
	require.ErrorIs(t, err, metastore.ErrNotFound)
	_, err = s.Update("a", "0000000000000bad", grow)
	require.ErrorIs(t, err, metastore.ErrNotFound)
	require.ErrorIs(t, err, metastore.ErrOtherIncarnation)
	got, _ = reopen().Get("a")
	require.Equal(t, want, got)
}

// M5: a name goes from one incarnation to the next in one step, and nothing else changes with it.
func storeReplaces(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	old := Topic("a", 1)
	require.NoError(t, s.Create(old))
	next := old
	next.ID = fmt.Sprintf("%016x", 2)
	version := s.Version()
	require.NoError(t, s.Replace(old.ID, next))
	require.Equal(t, version+1, s.Version())
	got, found := s.Get("a")
	require.True(t, found)
	require.Equal(t, next, got)
	require.ErrorIs(t, s.Delete("a", old.ID), metastore.ErrOtherIncarnation)
	require.ErrorIs(t, s.Replace(old.ID, next), metastore.ErrOtherIncarnation)
	require.ErrorIs(t, s.Replace(next.ID, next), metastore.ErrInvalid, "the same incarnation again")
	other := old
	other.Name = "b"
	require.ErrorIs(t, s.Replace(old.ID, other), metastore.ErrNotFound)
	for _, illegal := range []func(*metastore.Topic){
		func(t *metastore.Topic) { t.ID = "short" }, func(t *metastore.Topic) { t.CreatedAt++ }, func(t *metastore.Topic) { t.VisibilityMs++ },
		func(t *metastore.Topic) { t.Partitions++ }, func(t *metastore.Topic) { t.MaxInFlight++ },
	} {
		bad := next
		bad.ID = fmt.Sprintf("%016x", 3)
		illegal(&bad)
		require.ErrorIs(t, s.Replace(next.ID, bad), metastore.ErrInvalid)
	}
	got, _ = reopen().Get("a")
	require.Equal(t, next, got)
}

func storeDeletes(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	old := Topic("a", 1)
	require.NoError(t, s.Create(old))
	require.ErrorIs(t, s.Delete("b", old.ID), metastore.ErrNotFound)
	require.ErrorIs(t, s.Delete("a", ""), metastore.ErrOtherIncarnation)
	require.NoError(t, s.Delete("a", old.ID))
	require.ErrorIs(t, s.Delete("a", old.ID), metastore.ErrNotFound)
	_, found := s.Get("a")
	require.False(t, found)
	successor := Topic("A", 2)
	require.NoError(t, s.Create(successor)) // the name in any case is free again
	s = reopen()
	require.ErrorIs(t, s.Delete("A", old.ID), metastore.ErrOtherIncarnation)
	got, _ := s.Get("A")
	require.Equal(t, successor, got)
}

// M4
func storeCase(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.Create(Topic("Orders", 1)))
	for range 2 {
		var clash *metastore.CaseClashError
		require.ErrorAs(t, s.Create(Topic("oRDERS", 2)), &clash)
		require.Equal(t, &metastore.CaseClashError{Name: "oRDERS", Existing: "Orders"}, clash)
		_, found := s.Get("orders")
		require.False(t, found)
		s = reopen()
	}
}

func storeRefuses(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	for _, illegal := range []func(*metastore.Topic){
		func(t *metastore.Topic) { t.Name = ".." },
		func(t *metastore.Topic) { t.ID = "" },
		func(t *metastore.Topic) { t.ID = "000000000000000G" },
		func(t *metastore.Topic) { t.ID = "000000000000000A" },
		func(t *metastore.Topic) { t.ID = "00000000000000000" },
		func(t *metastore.Topic) { t.Partitions = 0 },
		func(t *metastore.Topic) { t.RetentionMs = -1 },
		func(t *metastore.Topic) { t.VisibilityMs = 0 },
		func(t *metastore.Topic) { t.MaxInFlight = 0 },
		func(t *metastore.Topic) { t.MaxAckedAhead = -1 },
	} {
		bad := Topic("a", 1)
		illegal(&bad)
		require.ErrorIs(t, s.Create(bad), metastore.ErrInvalid, "%+v", bad)
	}
	require.Zero(t, s.Version())
}

func storeVersions(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	last := s.Version()
	step := func(err error) {
		require.NoError(t, err)
		require.Greater(t, s.Version(), last)
		last = s.Version()
	}
	step(s.Create(Topic("a", 1)))
	_, err := s.Update("a", Topic("a", 1).ID, func(t *metastore.Topic) error { t.Partitions++; return nil })
	step(err)
	step(s.Delete("a", Topic("a", 1).ID))
	s = reopen()
	require.Equal(t, last, s.Version())
	step(s.Create(Topic("a", 2)))
}

func storeViews(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.Create(Topic("a", 1)))
	before := s.List("", 0)
	before[0].Partitions = 99
	got, _ := s.Get("a")
	require.EqualValues(t, 3, got.Partitions)
	_, err := s.Update("a", got.ID, func(t *metastore.Topic) error { t.Partitions = 5; return nil })
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Partitions)
}

func storeClosed(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.Create(Topic("a", 1)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Create(Topic("b", 2)), metastore.ErrClosed)
	require.ErrorIs(t, s.Delete("a", Topic("a", 1).ID), metastore.ErrClosed)
	_, found := s.Get("a")
	require.True(t, found)
	reopen()
}

// B132: the topic of a page token may be gone, and the page begins at the first name after it.
func storePages(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	for i := range 20 {
		require.NoError(t, s.Create(Topic(fmt.Sprintf("t%02d", i), i)))
	}
	var seen []string
	token := ""
	for page := s.List(token, 3); len(page) > 0; page = s.List(token, 3) {
		seen = append(seen, names(page)...)
		token = page[len(page)-1].Name
		if len(seen)%2 == 0 { // between two pages
			require.NoError(t, s.Delete(token, page[len(page)-1].ID))
		}
	}
	require.Len(t, seen, 20)
	require.IsIncreasing(t, seen)
	require.Len(t, s.List("", 0), 16)
}

func doc(n int) json.RawMessage { return fmt.Appendf(nil, `{"title":"<%d> &  "}`, n) }

// Versions count from one, outlive a purge and a restart, and go with their topic. B134 B148
func storeSchemas(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	plain, with := Topic("plain", 1), Topic("with", 2)
	require.NoError(t, s.CreateWithSchema(plain, nil))
	require.NoError(t, s.CreateWithSchema(with, json.RawMessage("{ \"type\" :\n \"object\" }")))
	require.ErrorIs(t, s.CreateWithSchema(Topic("bad", 3), json.RawMessage("{")), metastore.ErrInvalid)
	_, found := s.Get("bad")
	require.False(t, found)
	require.Empty(t, s.Schemas("plain"))
	require.Empty(t, s.Schemas("nobody"))
	for v := range 3 {
		got, err := s.AppendSchema("plain", plain.ID, v, doc(v+1))
		require.NoError(t, err)
		require.Equal(t, v+1, got)
	}
	for _, base := range []int{-1, 0, 2, 4} {
		_, err := s.AppendSchema("plain", plain.ID, base, doc(9))
		require.ErrorIs(t, err, metastore.ErrSchemaConflict, base)
	}
	_, err := s.AppendSchema("plain", with.ID, 3, doc(9))
	require.ErrorIs(t, err, metastore.ErrOtherIncarnation)
	_, err = s.AppendSchema("nobody", with.ID, 0, doc(9))
	require.ErrorIs(t, err, metastore.ErrNotFound)
	for _, bad := range []string{"", "{", "1 2", "nul"} {
		_, err = s.AppendSchema("plain", plain.ID, 3, json.RawMessage(bad))
		require.ErrorIs(t, err, metastore.ErrInvalid, bad)
	}
	next := plain
	next.ID = fmt.Sprintf("%016x", 77)
	require.NoError(t, s.Replace(plain.ID, next))
	want := []metastore.Schema{{Version: 1, Document: doc(1)}, {Version: 2, Document: doc(2)}, {Version: 3, Document: doc(3)}}
	for range 2 {
		require.Equal(t, want, s.Schemas("plain"))
		require.Equal(t, []metastore.Schema{{Version: 1, Document: json.RawMessage(`{"type":"object"}`)}}, s.Schemas("with"))
		s = reopen()
	}
	require.NoError(t, s.Delete("plain", next.ID))
	require.NoError(t, s.Create(Topic("plain", 5)))
	require.Empty(t, s.Schemas("plain"))
	require.Empty(t, reopen().Schemas("plain"))
}

func storeSchemaBudgets(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	big := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	a := Topic("a", 1)
	require.ErrorIs(t, s.CreateWithSchema(a, big(metastore.SchemaBytesMax+1)), metastore.ErrInvalid)
	require.NoError(t, s.CreateWithSchema(a, big(metastore.SchemaBytesMax)))
	for v := 1; v < metastore.SchemaTopicBytesMax/metastore.SchemaBytesMax; v++ {
		_, err := s.AppendSchema("a", a.ID, v, big(metastore.SchemaBytesMax))
		require.NoError(t, err)
	}
	held := s.Schemas("a")
	_, err := s.AppendSchema("a", a.ID, len(held), json.RawMessage("1"))
	require.ErrorIs(t, err, metastore.ErrSchemaBudget)
	s = reopen()
	require.Len(t, s.Schemas("a"), len(held))
	_, err = s.AppendSchema("a", a.ID, len(held), json.RawMessage("1"))
	require.ErrorIs(t, err, metastore.ErrSchemaBudget)
	require.NoError(t, s.Delete("a", a.ID))
	require.NoError(t, s.CreateWithSchema(Topic("a", 2), big(100)))
}

func storeUsers(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.Empty(t, s.Users())
	for _, name := range []string{"m", "a", "Z", "a.b_c-9"} {
		require.NoError(t, s.CreateUser(User(name)))
		require.ErrorIs(t, s.CreateUser(User(name)), metastore.ErrUserExists)
	}
	root := User("root")
	root.Root, root.Grants = true, []metastore.Grant{{Action: metastore.ActionAdmin}}
	require.NoError(t, s.CreateUser(root))
	for range 2 {
		require.Equal(t, []metastore.User{User("Z"), User("a"), User("a.b_c-9"), User("m"), root}, s.Users())
		got, found := s.User("a.b_c-9")
		require.True(t, found)
		require.Equal(t, User("a.b_c-9"), got)
		_, found = s.User("A")
		require.False(t, found)
		s = reopen()
	}
	require.NoError(t, s.DeleteUser("m"))
	require.ErrorIs(t, s.DeleteUser("m"), metastore.ErrUserNotFound)
	require.ErrorIs(t, s.SetPassword("m", []byte("x"), 2), metastore.ErrUserNotFound)
	require.ErrorIs(t, s.SetGrants("m", nil, 2), metastore.ErrUserNotFound)
	require.ErrorIs(t, s.DeleteUser("root"), metastore.ErrInvalid)
	require.ErrorIs(t, s.SetGrants("root", nil, 2), metastore.ErrInvalid)
	require.NoError(t, s.SetPassword("root", []byte("new"), 2))
	s = reopen()
	_, found := s.User("m")
	require.False(t, found)
	require.NoError(t, s.CreateUser(User("m")))
	got, _ := s.User("root")
	require.Equal(t, []byte("new"), got.PasswordHash)
	require.True(t, got.Root)
}

func storeRefusesUsers(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.CreateUser(User("u")))
	for _, illegal := range []func(*metastore.User){
		func(u *metastore.User) { u.Name = "" },
		func(u *metastore.User) { u.Name = ".." },
		func(u *metastore.User) { u.Name = "a b" },
		func(u *metastore.User) { u.Name = "a/b" },
		func(u *metastore.User) { u.Name = strings.Repeat("x", 65) },
		func(u *metastore.User) { u.PasswordHash = nil },
		func(u *metastore.User) { u.PasswordHash = make([]byte, 5000) },
		func(u *metastore.User) { u.Grants = []metastore.Grant{{Action: "fly"}} },
		func(u *metastore.User) { u.Grants = []metastore.Grant{{Action: "admin", Patterns: []string{"x"}}} },
		func(u *metastore.User) { u.Grants = []metastore.Grant{{Action: "produce", Patterns: []string{""}}} },
		func(u *metastore.User) { u.Grants = []metastore.Grant{{Action: "produce", Patterns: []string{"a*b"}}} },
		func(u *metastore.User) { u.Grants = []metastore.Grant{{Action: "produce", Patterns: []string{"**"}}} },
		func(u *metastore.User) {
			u.Grants = []metastore.Grant{{Action: "produce", Patterns: []string{strings.Repeat("x", 256)}}}
		},
	} {
		bad := User("v")
		illegal(&bad)
		require.ErrorIs(t, s.CreateUser(bad), metastore.ErrInvalid, "%#v", bad)
		if bad.Name == "v" {
			require.ErrorIs(t, errors.Join(s.SetGrants("u", bad.Grants, 2), s.SetPassword("u", bad.PasswordHash, 2)), metastore.ErrInvalid)
		}
	}
	many := make([]string, 10_000) // more than one change may carry
	for i := range many {
		many[i] = strings.Repeat("p", metastore.PatternLengthMax)
	}
	require.ErrorIs(t, s.SetGrants("u", []metastore.Grant{{Action: "produce", Patterns: many}}, 2), metastore.ErrInvalid)
	got, _ := reopen().User("u")
	require.NotEmpty(t, got.PasswordHash)
	_, found := s.User("v")
	require.False(t, found)
}

// B137: a change of the password leaves the grants as they are, and the other way round.
func storeFields(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	require.NoError(t, s.CreateUser(User("u")))
	require.NoError(t, s.SetGrants("u", nil, 5))
	require.NoError(t, s.SetPassword("u", []byte("second"), 7))
	want := User("u")
	want.Grants, want.PasswordHash, want.UpdatedAtMs = nil, []byte("second"), 7
	for range 2 {
		got, _ := s.User("u")
		require.Equal(t, want, got)
		s = reopen()
	}
	grants := []metastore.Grant{{Action: metastore.ActionConsume, Patterns: []string{"*"}}}
	require.NoError(t, s.SetGrants("u", grants, 9))
	want.Grants, want.UpdatedAtMs = grants, 9
	got, _ := reopen().User("u")
	require.Equal(t, want, got)
}

// B155: the topics of a user that is deleted have no owner in the same step, so a namesake inherits none.
func storeOwners(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	owned := func(name string, number int, owner string) metastore.Topic {
		topic := Topic(name, number)
		topic.Owner = owner
		return topic
	}
	require.ErrorIs(t, s.Create(owned("a", 1, "u")), metastore.ErrUserNotFound)
	require.ErrorIs(t, s.Create(owned("a", 1, "a b")), metastore.ErrInvalid)
	require.NoError(t, s.CreateUser(User("u")))
	require.NoError(t, s.CreateUser(User("v")))
	a, b, c := owned("a", 1, "u"), owned("b", 2, "v"), owned("c", 3, "u")
	for _, topic := range []metastore.Topic{a, b, c} {
		require.NoError(t, s.CreateWithSchema(topic, doc(1)))
	}
	_, err := s.Update("a", a.ID, func(t *metastore.Topic) error { t.Owner = "v"; return nil })
	require.ErrorIs(t, err, metastore.ErrInvalid)
	s = reopen()
	require.Equal(t, []metastore.Topic{a, b, c}, s.List("", 0))
	version := s.Version()
	require.NoError(t, s.DeleteUser("u"))
	require.Equal(t, version+1, s.Version())
	a.Owner, c.Owner = "", ""
	for range 2 {
		require.Equal(t, []metastore.Topic{a, b, c}, s.List("", 0))
		require.Len(t, s.Schemas("a"), 1)
		s = reopen()
	}
	require.NoError(t, s.CreateUser(User("u")))
	got, _ := s.Get("a")
	require.Empty(t, got.Owner)
}

// What readers hold does not change, and what they do to it changes nothing; nor does what callers do to what they handed in.
func storeHeld(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	given := User("u")
	document := doc(1)
	require.NoError(t, s.CreateUser(given))
	a := Topic("a", 1)
	require.NoError(t, s.CreateWithSchema(a, document))
	given.PasswordHash[0], given.Grants[0].Action, given.Grants[0].Patterns[0], document[0] = 'X', "X", "X", 'X'
	hash, grants := []byte("h2"), []metastore.Grant{{Action: metastore.ActionCreate, Patterns: []string{"p"}}}
	users, user, schemas, topics := s.Users(), first(s.User("u")), s.Schemas("a"), s.List("", 0)
	for _, u := range append(s.Users(), first(s.User("u"))) { // another reader who writes to what it got
		u.PasswordHash[0], u.Grants[0].Action, u.Grants[0].Patterns[0] = 'Y', "Y", "Y"
	}
	_ = append(s.Schemas("a"), metastore.Schema{Version: 9})
	s.Schemas("a")[0].Version = 9
	require.NoError(t, s.SetPassword("u", hash, 2))
	require.NoError(t, s.SetGrants("u", grants, 2))
	hash[0], grants[0].Patterns[0] = 'Z', "Z"
	_, err := s.AppendSchema("a", a.ID, 1, doc(2))
	require.NoError(t, err)
	require.NoError(t, s.Delete("a", a.ID))
	require.Equal(t, []metastore.User{User("u")}, users)
	require.Equal(t, User("u"), user)
	require.Equal(t, []metastore.Schema{{Version: 1, Document: doc(1)}}, schemas)
	require.Equal(t, []metastore.Topic{a}, topics)
	for range 2 {
		now := first(s.User("u"))
		require.Equal(t, "h2", string(now.PasswordHash))
		require.Equal(t, []string{"p"}, now.Grants[0].Patterns)
		s = reopen()
	}
}

func first(u metastore.User, _ bool) metastore.User { return u }

// B129, B141: alterations that race add up; none takes back another, and partitions never become fewer.
func storeRaces(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	a := Topic("a", 1)
	require.NoError(t, s.Create(a))
	var all sync.WaitGroup
	const each = 8
	for w := range 4 {
		all.Go(func() {
			for range each {
				before := a.Partitions
				after, err := s.Update("a", a.ID, func(t *metastore.Topic) error {
					before = t.Partitions
					switch w {
					case 0:
						t.RetentionMs++
					case 1:
						t.MaxInFlight++
					case 2:
						t.MaxAckedAhead++
					case 3:
						t.Partitions++
					}
					return nil
				})
				if err != nil || after.Partitions < before {
					t.Errorf("%v, partitions %d after %d", err, after.Partitions, before)
				}
			}
		})
	}
	all.Wait()
	a.RetentionMs, a.MaxInFlight, a.MaxAckedAhead, a.Partitions = a.RetentionMs+each, a.MaxInFlight+each, a.MaxAckedAhead+each, a.Partitions+each
	for range 2 {
		got, _ := s.Get("a")
		require.Equal(t, a, got)
		require.EqualValues(t, 1+4*each, s.Version())
		s = reopen()
	}
}

func storeSchemaRaces(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	a := Topic("a", 1)
	require.NoError(t, s.Create(a))
	var all sync.WaitGroup
	var mu sync.Mutex
	made := map[int]string{}
	for w := range 4 {
		all.Go(func() {
			for i := range 6 {
				d := doc(100*w + i)
				v, err := s.AppendSchema("a", a.ID, len(s.Schemas("a")), d)
				if errors.Is(err, metastore.ErrSchemaConflict) {
					continue
				}
				mu.Lock()
				if _, again := made[v]; err != nil || again {
					t.Errorf("version %d, again: %v, %v", v, again, err)
				}
				made[v] = string(d)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for range 2 {
		got := s.Schemas("a")
		require.Len(t, got, len(made))
		for i, v := range got {
			require.Equal(t, i+1, v.Version)
			require.Equal(t, made[v.Version], string(v.Document))
		}
		s = reopen()
	}
}

// Of creations of one name, in whatever case, one succeeds.
func storeCreateRaces(t *testing.T, reopen func() metastore.Store) {
	s := reopen()
	var all sync.WaitGroup
	var mu sync.Mutex
	var made []metastore.Topic
	for w, name := range []string{"orders", "Orders", "ORDERS", "orders"} {
		all.Go(func() {
			topic := Topic(name, w)
			err := s.Create(topic)
			var clash *metastore.CaseClashError
			if err == nil {
				mu.Lock()
				made = append(made, topic)
				mu.Unlock()
			} else if !errors.Is(err, metastore.ErrExists) && !errors.As(err, &clash) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, made, 1)
	require.Equal(t, made, s.List("", 0))
	require.Equal(t, made, reopen().List("", 0))
}
