package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/metastore"
	"narad/vfs"
)

// TestMetastoreOlderThanMessages: after a graceful stop a metastore of before is refused, and nothing is set aside.
func TestMetastoreOlderThanMessages(t *testing.T) {
	dir := t.TempDir()
	root, err := vfs.OS{}.OpenRoot(dir, false)
	require.NoError(t, err)
	defer root.Close()
	life := func(topics ...string) {
		e, err := Open(dir, Options{})
		require.NoError(t, err)
		for _, name := range topics {
			_, err := e.CreateTopic(TopicSpec{Name: name})
			require.NoError(t, err)
			require.NoError(t, e.Produce(Message{Topic: name, Partition: AnyPartition, Payload: []byte(name)}))
		}
		require.NoError(t, e.Close())
	}
	life("early")
	files := map[string][]byte{}
	for _, name := range []string{metastore.SnapshotFile, metastore.JournalFile} {
		d, err := root.OpenDir(metastoreDir)
		require.NoError(t, err)
		files[name], err = vfs.ReadFile(d, name, 1<<20)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	life("late")
	d, err := root.OpenDir(metastoreDir)
	require.NoError(t, err)
	late := map[string][]byte{}
	for name, b := range files {
		late[name], err = vfs.ReadFile(d, name, 1<<20)
		require.NoError(t, err)
		require.NoError(t, vfs.ReplaceFile(d, name, b))
	}
	_, err = Open(dir, Options{})
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, metastoreDir, corrupt.File)
	_, err = Open(dir, Options{Metastore: metastore.NewQuorum().Open(env.OS(), nil)})
	require.ErrorAs(t, err, &corrupt)

	for name, b := range late { // restored
		require.NoError(t, vfs.ReplaceFile(d, name, b))
	}
	require.NoError(t, d.Close())
	e, err := Open(dir, Options{})
	require.NoError(t, err)
	for _, name := range []string{"early", "late"} {
		got, err := e.Consume(&ConsumeRequest{Topic: name, Partition: AnyPartition, Wait: 10 * time.Second})
		require.NoError(t, err)
		require.Equal(t, name, string(got.Payload))
	}
	require.NoError(t, e.Close())
}
