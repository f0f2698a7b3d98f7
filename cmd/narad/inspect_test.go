package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/inspect"
)

func TestInspectCommand(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.Open(dir, engine.Options{})
	require.NoError(t, err)
	_, err = e.CreateTopic(engine.TopicSpec{Name: "orders"})
	require.NoError(t, err)
	require.NoError(t, e.Produce(engine.Message{Topic: "orders", Partition: 1, Payload: []byte("two coffees")}))

	// A broker is running.
	r := narad("", "inspect", dir)
	require.Equal(t, exitOK, r.status)
	require.Contains(t, r.stdout, "orders/")
	r = narad("", "inspect", "--verify", dir)
	require.Equal(t, exitUsage, r.status)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, "a broker is running on it; stop the broker, or look without --verify")
	require.NoError(t, e.Close())

	r = narad("", "inspect", "--verify", dir)
	require.Equal(t, exitOK, r.status)
	require.Contains(t, r.stdout, "No damage. Looked at ")
	require.Empty(t, r.stderr, "no progress unless a terminal watches")

	file := filepath.Join(dir, "ingress/produce/00000000000000000001.wal")
	r = narad("", "inspect", file, "--records", "--json")
	require.Equal(t, exitOK, r.status)
	var report inspect.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.Equal(t, inspect.ReportVersion, report.Version)
	require.Equal(t, "two coffees", report.Root.WALRecords[0].Payload)

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[30] ^= 1
	require.NoError(t, os.WriteFile(file, b, 0o600))
	r = narad("", "inspect", file)
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stdout, "00000000000000000001.wal\n!! segment of the ingress log")
	require.Contains(t, r.stdout, "byte 0 (")
	require.Contains(t, r.stderr, "is damaged")
}

func TestInspectUsage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("text"), 0o600))
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"inspect"}, "takes one file or directory"},
		{[]string{"inspect", "a", "b"}, "takes one file or directory"},
		{[]string{"inspect", dir, "--limit=0"}, "--limit is 0, at least 1 is allowed"},
		{[]string{"inspect", filepath.Join(dir, "none")}, "does not exist"},
		{[]string{"inspect", dir}, "is no directory of Narad"},
		{[]string{"inspect", filepath.Join(dir, "x")}, "neither its name nor its first bytes"},
	} {
		r := narad("", c.args...)
		require.Equal(t, exitUsage, r.status, c.args)
		require.Contains(t, r.stderr, c.says)
		require.Empty(t, r.stdout)
	}
}

// What a server leaves behind, its metastore on Raft among it, is read like the rest.
func TestInspectOfAServer(t *testing.T) {
	dir := t.TempDir()
	old, err := engine.Open(filepath.Join(dir, "data"), engine.Options{}) // of an older version
	require.NoError(t, err)
	_, err = old.CreateTopic(engine.TopicSpec{Name: "older"})
	require.NoError(t, err)
	require.NoError(t, old.Close())

	p := startWith(t, dir, nil).serving()
	data := filepath.Join(dir, "data")
	r := narad("", "inspect", data)
	require.Equal(t, exitOK, r.status, r.stdout)
	require.Contains(t, r.stdout, "metastore on Raft; not looked into: a broker has it open")
	require.Equal(t, exitUsage, narad("", "inspect", "--verify", data).status)
	require.Equal(t, exitUsage, narad("", "inspect", "--verify", filepath.Join(data, "topics")).status)
	p.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, p.exit(), p.log())

	r = narad("", "inspect", "--verify", data)
	require.Equal(t, exitOK, r.status, r.stdout)
	require.Contains(t, r.stdout, "metastore on Raft, 1 topic after change 2\n")
	require.Contains(t, r.stdout, "metastore that was taken over by the one on Raft")
	require.Contains(t, r.stdout, "password of the user root")
	require.NotContains(t, r.stdout, "WARNING")

	replica := filepath.Join(data, "raft", "fsm.db")
	good, err := os.ReadFile(replica)
	require.NoError(t, err)
	bad := append([]byte(nil), good...)
	for i := range bad {
		bad[i] ^= 0x5a
	}
	require.NoError(t, os.WriteFile(replica, bad, 0o600))
	r = narad("", "inspect", data)
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.stdout, "metastore on Raft, damaged")
	require.NoError(t, os.Remove(replica))
	require.Equal(t, exitFailed, narad("", "inspect", data).status)
	require.NoError(t, os.WriteFile(replica, good, 0o600))
	require.NoError(t, os.RemoveAll(filepath.Join(data, "topics", "older")))
	require.Equal(t, exitFailed, narad("", "inspect", data).status, "a topic of the metastore has no directory")
}
