package raft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"narad/env"
	"narad/metastore"
	"narad/metastore/metastoretest"
	"narad/vfs"

	hraft "github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestStore(t *testing.T) {
	metastoretest.Run(t, func(t *testing.T) func() metastore.Store {
		dir := t.TempDir()
		return func() metastore.Store { return open(t, dir, Config{}) }
	})
}

// open opens a store that need not survive a loss of power.
func open(t testing.TB, dir string, c Config) *Store {
	c.noSync = true
	s, err := Open(dir, c)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func contents(s metastore.Store) string {
	var b strings.Builder
	for _, t := range s.List("", 0) {
		fmt.Fprintf(&b, "%+v %v\n", t, s.Schemas(t.Name))
	}
	for _, u := range s.Users() {
		fmt.Fprintf(&b, "%s %s %v %v %d\n", u.Name, u.PasswordHash, u.Grants, u.Root, u.UpdatedAtMs)
	}
	return fmt.Sprintf("%sversion %d", b.String(), s.Version())
}

// populate makes one of everything.
func populate(t testing.TB, s metastore.Store) {
	require.NoError(t, s.CreateUser(metastoretest.User("u")))
	a := metastoretest.Topic("a", 1)
	a.Owner = "u"
	require.NoError(t, s.CreateWithSchema(a, []byte(`{"title":"<&>"}`)))
	_, err := s.AppendSchema("a", a.ID, 1, []byte(`true`))
	require.NoError(t, err)
	require.NoError(t, s.Create(metastoretest.Topic("b", 2)))
	_, err = s.Update("b", metastoretest.Topic("b", 2).ID, func(t *metastore.Topic) error { t.Partitions = 9; return nil })
	require.NoError(t, err)
	require.NoError(t, s.Create(metastoretest.Topic("c", 3)))
	require.NoError(t, s.Delete("c", metastoretest.Topic("c", 3).ID))
}

// TestImport: what Local holds is there at the first start, and in the snapshot that later voters get; its files are out of the way.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	localAt := func() *metastore.Local {
		d, err := vfs.OS{}.OpenRoot(filepath.Join(dir, localDir), true)
		require.NoError(t, err)
		l, err := metastore.OpenLocal(env.OS(), d)
		require.NoError(t, err)
		t.Cleanup(func() { l.Close(); d.Close() })
		return l.(*metastore.Local)
	}
	l := localAt()
	populate(t, l)
	want := contents(l)
	require.NoError(t, l.Close())

	// Not while another process may change it, and not into a cluster whose other voters would not have it.
	root, err := vfs.OS{}.OpenRoot(dir, false)
	require.NoError(t, err)
	defer root.Close()
	lock, err := root.Lock(lockFile)
	require.NoError(t, err)
	_, err = Open(dir, Config{})
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, lock.Close())
	_, err = Open(dir, Config{NodeID: "a", Peers: []Peer{{"a", "127.0.0.1:1"}, {"b", "127.0.0.1:2"}}})
	require.ErrorContains(t, err, "without peers first")

	// A start that was interrupted leaves something behind.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, newDir, "snapshots", "half"), 0o700))
	for life := range 3 {
		s := open(t, dir, Config{})
		require.Equal(t, want, contents(s), "life %d", life)
		require.NoError(t, s.Create(metastoretest.Topic("more", life)))
		require.NoError(t, s.Delete("more", metastoretest.Topic("more", life).ID))
		want = contents(s)
		require.NoError(t, s.Close())
		_, err = os.Stat(filepath.Join(dir, localDir))
		require.ErrorIs(t, err, os.ErrNotExist)
		if life == 0 { // interrupted before the rename of Local's directory
			require.NoError(t, os.Rename(filepath.Join(dir, importedDir), filepath.Join(dir, localDir)))
		}
		if life == 1 { // nothing but Raft's own files is needed
			require.NoError(t, os.Remove(filepath.Join(dir, raftDir, fsmFile)))
		}
	}
	// Somebody went back to Local and made changes: there are two metastores.
	require.NoError(t, os.Rename(filepath.Join(dir, importedDir), filepath.Join(dir, localDir)))
	l = localAt()
	require.NoError(t, l.Create(metastoretest.Topic("elsewhere", 9)))
	require.NoError(t, l.Close())
	_, err = Open(dir, Config{})
	require.ErrorContains(t, err, "two metastores")
}

func TestImportOfDamage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, localDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, localDir, metastore.SnapshotFile), []byte("x"), 0o600))
	var corrupt *metastore.CorruptError
	_, err := Open(dir, Config{})
	require.ErrorAs(t, err, &corrupt)
	_, err = os.Stat(filepath.Join(dir, raftDir))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestTopicsWithoutMetastore: a node that lost its metastore and not its topics does not begin with an empty one.
func TestTopicsWithoutMetastore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir, Config{}).Close())
	require.NoError(t, os.MkdirAll(filepath.Join(dir, topicsDir, "orders"), 0o700))
	require.NoError(t, open(t, dir, Config{}).Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, raftDir)))
	var corrupt *metastore.CorruptError
	_, err := Open(dir, Config{})
	require.ErrorAs(t, err, &corrupt)
	require.ErrorContains(t, err, "orders")
	_, err = os.Stat(filepath.Join(dir, raftDir))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestSnapshots: the log is cut behind snapshots, and a replica that was lost or is older than the log comes back from one. B131 B147
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	c := Config{SnapshotThreshold: 8, TrailingLogs: 2, SnapshotInterval: 5 * time.Millisecond}
	s := open(t, dir, c)
	populate(t, s)
	early := copyFile(t, filepath.Join(dir, raftDir, fsmFile)) // a replica of long ago
	for i := range 60 {
		_, err := s.Update("b", metastoretest.Topic("b", 2).ID, func(t *metastore.Topic) error { t.RetentionMs++; return nil })
		require.NoError(t, err)
		if i == 30 {
			require.Eventually(t, func() bool { return s.Status().Snapshots > 0 }, time.Minute, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool {
		first, err := s.files.logs.FirstIndex()
		return err == nil && first > 40
	}, 10*time.Second, time.Millisecond)
	st := s.Status()
	require.Positive(t, st.SnapshotBytes)
	require.Positive(t, st.SnapshotDuration)
	require.Zero(t, st.SnapshotFailures)
	want := contents(s)
	require.NoError(t, s.Close())
	snapshots, err := os.ReadDir(filepath.Join(dir, raftDir, "snapshots"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(snapshots), snapshotsKept)

	replica := filepath.Join(dir, raftDir, fsmFile)
	for name, spoil := range map[string]func(){
		"nothing":       func() {},
		"lost":          func() { require.NoError(t, os.Remove(replica)) },
		"older":         func() { require.NoError(t, os.WriteFile(replica, early, 0o600)) },
		"half restored": func() { require.NoError(t, os.WriteFile(filepath.Join(dir, raftDir, restoreFile), []byte("x"), 0o600)) },
	} {
		spoil()
		s = open(t, dir, c)
		require.Equal(t, want, contents(s), name)
		require.NoError(t, s.Close())
	}
}

func copyFile(t testing.TB, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// TestFilesApart: files that do not belong together are refused, and left as they are.
func TestFilesApart(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"no log": func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, logFile))) },
		"an empty log": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, logFile), nil, 0o600))
		},
		"a log of before": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, logFile), copyFile(t, filepath.Join(dir, "early")), 0o600))
		},
		"a replica that is none": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fsmFile), bytes.Repeat([]byte("x"), 9000), 0o600))
		},
		"a log that is none": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, logFile), bytes.Repeat([]byte("x"), 9000), 0o600))
		},
		"a log cut short": func(t *testing.T, dir string) { // what is missing is read through a map: that would end this process
			require.NoError(t, os.Truncate(filepath.Join(dir, logFile), int64(2*os.Getpagesize())))
		},
		"a replica cut short": func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, fsmFile), int64(2*os.Getpagesize())))
		},
		"a replica without a record": func(t *testing.T, dir string) {
			d, err := openDisk(filepath.Join(dir, fsmFile), true)
			require.NoError(t, err)
			require.NoError(t, d.write([]metastore.Record{{Bucket: metastore.TopicBucket, Key: []byte("a")}}, position{1, 1, 1}))
			require.NoError(t, d.close())
		},
		"a replica of a newer format": func(t *testing.T, dir string) {
			d, err := openDisk(filepath.Join(dir, fsmFile), true)
			require.NoError(t, err)
			require.NoError(t, d.db.Update(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte(metaBucket)).Put([]byte("format"), []byte{0, 0, 0, 0, 0, 0, 0, 2})
			}))
			require.NoError(t, d.close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Config{})
			require.NoError(t, s.Create(metastoretest.Topic("first", 7)))
			require.NoError(t, s.Close())
			require.NoError(t, os.WriteFile(filepath.Join(dir, raftDir, "early"), copyFile(t, filepath.Join(dir, raftDir, logFile)), 0o600))
			s = open(t, dir, Config{})
			populate(t, s)
			require.NoError(t, s.Close())
			spoil(t, filepath.Join(dir, raftDir))
			before := copyFile(t, filepath.Join(dir, raftDir, fsmFile))
			_, err := Open(dir, Config{forTests: forTests{noSync: true}})
			var corrupt *metastore.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.True(t, bytes.Equal(before, copyFile(t, filepath.Join(dir, raftDir, fsmFile))))
		})
	}
}

// TestUnknownEntry: an entry of a newer program stops the store before it, and a restart meets it again. B144 R4
func TestUnknownEntry(t *testing.T) {
	for _, entry := range []string{`{"after":0,"change":{"op":"fly"}}`, `{"after":0,"change":{"op":"create","wings":2}}`} {
		dir := t.TempDir()
		stopped := make(chan error, 1)
		c := Config{OnStop: func(err error) { stopped <- err }, OpenTimeout: 5 * time.Second}
		s := open(t, dir, c)
		f := s.raft.Apply([]byte(entry), time.Second)
		require.NoError(t, f.Error())
		require.ErrorIs(t, f.Response().(error), metastore.ErrFailed)
		var unknown *metastore.UnknownChangeError
		require.ErrorAs(t, <-stopped, &unknown)
		require.ErrorIs(t, s.Create(metastoretest.Topic("a", 1)), metastore.ErrFailed)
		require.ErrorIs(t, s.Ready(), metastore.ErrFailed)
		st := s.Status()
		require.EqualValues(t, 1, st.UnknownEntries)
		require.Error(t, st.Stopped)
		require.False(t, st.CaughtUp)
		require.NoError(t, s.Close())

		_, err := Open(dir, c)
		require.ErrorIs(t, err, metastore.ErrFailed)
		require.ErrorAs(t, err, &unknown)
	}
}

// TestUselessEntries: what nobody can read, and what was planned against another state, changes nothing and counts as applied.
func TestUselessEntries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Config{})
	populate(t, s)
	want := contents(s)
	for _, entry := range []string{"", "x", `{"after":`, `{"after":7,"change":3}`, `{"after":7,"change":{"op":"create"}}`} {
		f := s.raft.Apply([]byte(entry), time.Second)
		require.NoError(t, f.Error())
		require.Error(t, f.Response().(error), entry)
		require.NotErrorIs(t, f.Response().(error), metastore.ErrFailed)
	}
	stale, err := encode(&metastore.State{}, metastore.Change{Op: "delete", Topic: &metastore.Topic{Name: "b", ID: metastoretest.Topic("b", 2).ID}})
	require.NoError(t, err)
	f := s.raft.Apply(stale, time.Second)
	require.NoError(t, f.Error())
	require.ErrorIs(t, f.Response().(error), errStale)
	require.Equal(t, want, contents(s))
	require.EqualValues(t, 5, s.Status().UndecodedEntries)
	// Raft counts an entry as applied a moment after the replica has answered.
	require.Eventually(t, func() bool { return s.raft.AppliedIndex() == s.Status().DurableIndex }, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())
	require.Equal(t, want, contents(open(t, dir, Config{})))
}

// TestDiskRefuses: a write that fails is tried again; when it fails for long the store stops, and the entry is applied after a
// restart. B145 R4
func TestDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	var failures atomic.Int64
	stopped := make(chan error, 1)
	c := Config{OnStop: func(err error) { stopped <- err }}
	c.retryFirst, c.retryFor = time.Millisecond, 20*time.Millisecond
	c.failWrite = func() error {
		if failures.Add(-1) >= 0 {
			return syscall.ENOSPC
		}
		return nil
	}
	s := open(t, dir, c)
	failures.Store(2)
	require.NoError(t, s.Create(metastoretest.Topic("a", 1)))
	require.EqualValues(t, 2, s.Status().StorageErrors)
	require.False(t, s.Status().ApplyStalled)
	require.NoError(t, s.Ready())

	failures.Store(1 << 40)
	err := s.Create(metastoretest.Topic("b", 2))
	require.ErrorIs(t, err, metastore.ErrFailed)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, <-stopped, syscall.ENOSPC)
	_, found := s.Get("b")
	require.False(t, found)
	require.True(t, s.Status().ApplyStalled)
	require.NoError(t, s.Close())

	failures.Store(0)
	s = open(t, dir, c)
	got, found := s.Get("b")
	require.True(t, found)
	require.Equal(t, metastoretest.Topic("b", 2), got)
}

// TestReplay: entries that Raft hands out again after a restart are not applied twice. B136 R5
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Config{})
	populate(t, s)
	want, at := contents(s), *s.fsm.at.Load()
	require.NoError(t, s.Close())
	for range 3 {
		s = open(t, dir, Config{})
		require.Equal(t, want, contents(s))
		require.Equal(t, at, *s.fsm.at.Load())
		require.NoError(t, s.Close())
	}
}

// What the system refuses is no damage.
func TestRefusedIsNoDamage(t *testing.T) {
	_, err := openBolt(filepath.Join(t.TempDir(), "absent", fsmFile), true)
	require.ErrorIs(t, err, syscall.ENOENT)
	var corrupt *metastore.CorruptError
	require.NotErrorAs(t, err, &corrupt)
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Config{})
	_, err := Open(dir, Config{})
	require.ErrorIs(t, err, vfs.ErrLocked)
}

// A node that is alone keeps the name that it began with; one of several must be among the voters.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir, Config{NodeID: "first"}).Close())
	s := open(t, dir, Config{NodeID: "second"})
	require.Equal(t, "first", s.Status().LeaderID)
	require.NoError(t, s.Close())
	_, err := Open(dir, Config{NodeID: "second", Peers: []Peer{{"second", "127.0.0.1:1"}, {"third", "127.0.0.1:2"}}})
	require.ErrorContains(t, err, "none of the voters")
	for _, bad := range []Config{
		{NodeID: "a", Peers: []Peer{{"b", "127.0.0.1:1"}}},
		{NodeID: "a", Peers: []Peer{{"a", "127.0.0.1:1"}, {"a", "127.0.0.1:2"}}},
		{NodeID: "a", Peers: []Peer{{"a", ""}}},
		{SnapshotInterval: time.Millisecond},
		{Listen: "0.0.0.0:7943"},
		{Listen: "192.0.2.1:7943"},
	} {
		dir := t.TempDir()
		_, err := Open(dir, bad)
		require.Error(t, err, "%+v", bad)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// A node alone opens no port, and says how it is.
func TestStatusAlone(t *testing.T) {
	var logged bytes.Buffer
	dir := t.TempDir()
	s := open(t, dir, Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, s.Ready())
	populate(t, s)
	require.NoError(t, s.AwaitCaughtUp(t.Context())) // a change returns when the replica has it, and Raft counts it as applied a moment later
	st := s.Status()
	require.IsType(t, &hraft.InmemTransport{}, s.trans.Transport)
	require.Equal(t, "leader", st.State)
	require.True(t, st.HasLeader && st.CaughtUp && st.CaughtUpOnce)
	require.Equal(t, 1, st.Voters)
	require.Zero(t, st.NonVoters)
	require.Zero(t, st.LastContact)
	require.Equal(t, st.LastLogIndex, st.AppliedIndex)
	require.Equal(t, st.CommitIndex, st.DurableIndex)
	require.Equal(t, s.Version(), st.Version)
	require.Positive(t, st.ReplicaBytes)
	require.NoError(t, s.Close())
	require.Equal(t, "shutdown", s.Status().State)
	require.Error(t, s.Ready())
	require.Contains(t, logged.String(), "entering leader state")
	require.NotContains(t, logged.String(), "hash of u")
}

// TestThreeOverTCP: voters find each other at their ports, a follower names the leader, and all end with the same contents. One that is
// left alone is not ready, changes nothing, and still knows everything. AVL-05, AVL-07, AVL-12, API-10
func TestThreeOverTCP(t *testing.T) {
	var peers []Peer
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		peers = append(peers, Peer{fmt.Sprint("n", i), l.Addr().String()})
		require.NoError(t, l.Close())
	}
	var stores []*Store
	for _, p := range peers {
		c := Config{NodeID: p.ID, Peers: peers}
		c.noSync, c.timeouts = true, 200*time.Millisecond
		s, err := start(t.TempDir(), c)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, s := range stores {
		require.NoError(t, s.AwaitCaughtUp(ctx))
	}
	// On a busy machine the lead may move at any time, so each step is tried until the one that leads at the moment takes it.
	eventually := func(holds func() bool) { require.Eventually(t, holds, 20*time.Second, 5*time.Millisecond) }
	byLeader := func(change func(s *Store) error) (leader *Store) {
		eventually(func() bool {
			for _, s := range stores {
				if err := change(s); err == nil || errors.Is(err, metastore.ErrExists) || errors.Is(err, metastore.ErrUserExists) { // an earlier try may have come through unanswered
					leader = s
					return true
				}
			}
			return false
		})
		return leader
	}
	byLeader(func(s *Store) error { return s.Create(metastoretest.Topic("a", 1)) })
	leader := byLeader(func(s *Store) error { return s.CreateUser(metastoretest.User("u")) })
	for _, s := range stores {
		eventually(func() bool { return s.Version() == 2 && s.Status().CaughtUp })
		require.Equal(t, contents(leader), contents(s))
		require.Equal(t, 3, s.Status().Voters)
		eventually(func() bool { return s.Ready() == nil })
	}
	eventually(func() bool { // two of them name the third
		leads, named := "", map[string]int{}
		for i, s := range stores {
			var elsewhere *NoLeaderError
			switch err := s.CreateUser(metastoretest.User("u")); {
			case errors.As(err, &elsewhere):
				named[elsewhere.LeaderAddr]++
			case errors.Is(err, metastore.ErrUserExists):
				leads = peers[i].Addr
			}
		}
		return named[leads] == len(stores)-1
	})

	survivor := stores[0]
	for _, s := range stores[1:] {
		require.NoError(t, s.Close())
	}
	eventually(func() bool { return errors.Is(survivor.Ready(), metastore.ErrNoLeader) })
	require.ErrorIs(t, survivor.Create(metastoretest.Topic("b", 2)), metastore.ErrNoLeader)
	_, found := survivor.Get("a")
	require.True(t, found, "its copy is read without anybody")
}
