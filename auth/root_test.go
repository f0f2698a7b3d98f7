package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"narad/metastore"
	"narad/vfs"
)

func rootDir(t *testing.T) (string, vfs.Dir) {
	path := t.TempDir()
	dir, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	return path, dir
}

func TestSeedRoot(t *testing.T) {
	path, dir := rootDir(t)
	a, u := newTest(t)
	seed := func(given string) (Seeded, error) {
		return a.SeedRoot(t.Context(), u, dir, given, time.Unix(5, 0), rand.Reader)
	}
	done, err := seed("")
	require.NoError(t, err)
	require.Equal(t, RootFromFile, done)
	text, err := os.ReadFile(filepath.Join(path, PasswordFile))
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(path, PasswordFile))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	password := strings.TrimSuffix(string(text), "\n")
	require.Len(t, password, 32)
	require.NoError(t, a.Verify(t.Context(), RootName, password))
	root, _ := u.User(RootName)
	require.True(t, root.Root)
	require.Equal(t, int64(5000), root.CreatedAtMs)

	done, err = seed("another") // there is one: nothing changes
	require.NoError(t, err)
	require.Equal(t, RootExists, done)
	require.NoError(t, a.Verify(t.Context(), RootName, password))

	// An earlier start wrote the file and stopped before it made the user.
	u.remove(RootName)
	done, err = seed("")
	require.NoError(t, err)
	require.Equal(t, RootFromFile, done)
	again, err := os.ReadFile(filepath.Join(path, PasswordFile))
	require.NoError(t, err)
	require.Equal(t, text, again)
	require.NoError(t, a.Verify(t.Context(), RootName, password))
}

func TestSeedRootWithAPassword(t *testing.T) {
	path, dir := rootDir(t)
	a, u := newTest(t)
	done, err := a.SeedRoot(t.Context(), u, dir, "given", time.Now(), rand.Reader)
	require.NoError(t, err)
	require.Equal(t, RootFromGiven, done)
	require.NoError(t, a.Verify(t.Context(), RootName, "given"))
	require.NoFileExists(t, filepath.Join(path, PasswordFile))

	u.remove(RootName)
	_, err = a.SeedRoot(t.Context(), u, dir, strings.Repeat("x", 73), time.Now(), rand.Reader)
	require.ErrorIs(t, err, ErrPassword)
	require.NotContains(t, err.Error(), "xxx")
}

func TestSeedRootRefusesAnotherFile(t *testing.T) {
	path, dir := rootDir(t)
	a, u := newTest(t)
	file := filepath.Join(path, PasswordFile)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := a.SeedRoot(t.Context(), u, dir, "", time.Now(), rand.Reader)
	require.ErrorIs(t, err, ErrPassword)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, text) // never overwritten

	require.NoError(t, os.WriteFile(file, []byte("mine\r\n"), 0o600))
	_, err = a.SeedRoot(t.Context(), u, dir, "", time.Now(), rand.Reader)
	require.NoError(t, err)
	require.NoError(t, a.Verify(t.Context(), RootName, "mine"))
}

func TestSeedRootOfAnImpostor(t *testing.T) {
	_, dir := rootDir(t)
	a, u := newTest(t)
	u.put(t, RootName, "secret")
	_, err := a.SeedRoot(t.Context(), u, dir, "", time.Now(), rand.Reader)
	require.ErrorContains(t, err, "not the root user")
}

func TestSeedRootNeedsRandomness(t *testing.T) {
	path, dir := rootDir(t)
	a, u := newTest(t)
	_, err := a.SeedRoot(t.Context(), u, dir, "", time.Now(), bytes.NewReader([]byte("short")))
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(path, PasswordFile))
	require.Empty(t, u.all)
	require.NoError(t, os.WriteFile(filepath.Join(path, passwordDraft), []byte("left by a crash"), 0o600))
	_, err = a.SeedRoot(t.Context(), raced{u}, dir, "", time.Now(), rand.Reader)
	require.NoError(t, err)
}

// raced is a store in which another node makes the user first.
type raced struct{ *users }

func (raced) CreateUser(metastore.User) error { return metastore.ErrUserExists }

// moody is a store without a leader at first, which then loses it when the change is made.
type moody struct {
	*users
	errs []error
}

func (m *moody) CreateUser(u metastore.User) error {
	if len(m.errs) == 0 {
		return m.users.CreateUser(u)
	}
	err := m.errs[0]
	m.errs = m.errs[1:]
	if errors.Is(err, metastore.ErrUncertain) {
		m.users.CreateUser(u)
	}
	return err
}

func TestSeedRootWaitsForALeader(t *testing.T) {
	_, dir := rootDir(t)
	synctest.Test(t, func(t *testing.T) {
		a, u := newTest(t)
		m := &moody{u, []error{metastore.ErrNoLeader, metastore.ErrNoLeader, metastore.ErrUncertain}}
		done, err := a.SeedRoot(t.Context(), m, dir, "given", time.Now(), rand.Reader)
		require.NoError(t, err)
		require.Equal(t, RootFromGiven, done)
		require.NoError(t, a.Verify(t.Context(), RootName, "given"))

		u.remove(RootName)
		m.errs = slices.Repeat([]error{metastore.ErrNoLeader}, 2*seedTries)
		_, err = a.SeedRoot(t.Context(), m, dir, "given", time.Now(), rand.Reader)
		require.ErrorIs(t, err, metastore.ErrNoLeader)
	})
}
