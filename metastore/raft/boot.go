package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"narad/metastore"
	"narad/vfs"

	hraft "github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Names in the data directory.
const (
	raftDir       = "raft"
	newDir        = "raft.new" // until it is complete
	logFile       = "raft.db"
	snapshotsKept = 2
	importFile    = "imported" // in raft/: what the first snapshot was made of

	topicsDir   = "topics"
	localDir    = "metastore"
	importedDir = "metastore.imported"
	lockFile    = "lock" // of the engine, which has it while it serves
	localMax    = 1 << 30
)

// origin is what the file imported says, as JSON.
type origin struct {
	Sequence uint64 `json:"sequence"`
	Topics   int    `json:"topics"`
}

// boot makes the directory raft if there is none, and sees to it that no other metastore is left in its place.
func boot(root vfs.Dir, dataDir string, c Config) error {
	_, err := root.Stat(raftDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = create(root, dataDir, c)
	}
	if err != nil {
		return err
	}
	return retireLocal(root)
}

// create makes the directory raft in one step, with what Local's files hold if there are any.
func create(root vfs.Dir, dataDir string, c Config) error {
	lock, err := root.Lock(lockFile) // nobody may be changing Local's files
	if err != nil {
		return err
	}
	defer lock.Close()
	local, err := readLocal(root)
	if err != nil {
		return err
	}
	if local == nil {
		if err := noTopics(root); err != nil {
			return err
		}
	}
	if local != nil && len(c.Peers) > 1 {
		return fmt.Errorf("the data directory has a metastore of one node: start this node without peers first, so that it is taken over")
	}
	if err := vfs.RemoveAll(root, newDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.Mkdir(newDir); err != nil {
		return err
	}
	if err := fill(filepath.Join(dataDir, newDir), c, local); err != nil {
		return fmt.Errorf("make %s: %w", newDir, err)
	}
	made, err := root.OpenDir(newDir)
	if err != nil {
		return err
	}
	defer made.Close()
	if local != nil {
		b, err := json.Marshal(origin{local.Sequence(), local.Topics()})
		if err != nil {
			return err
		}
		if err := vfs.ReplaceFile(made, importFile, b); err != nil {
			return err
		}
	}
	if err := made.Sync(); err != nil {
		return err
	}
	if err := root.Rename(newDir, raftDir); err != nil {
		return err
	}
	return root.Sync()
}

// noTopics reports topics of which there is no metastore: a new one would know none of them, and their messages would be removed.
func noTopics(root vfs.Dir) error {
	dir, err := root.OpenDir(topicsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.List()
	for _, e := range entries {
		if e.Dir {
			return &metastore.CorruptError{File: raftDir, Why: fmt.Sprintf("it is missing, but %s/%s exists; restore both from one copy", topicsDir, e.Name)}
		}
	}
	return err
}

// readLocal returns what the files of metastore.Local hold, nil when there are none.
func readLocal(root vfs.Dir) (*metastore.State, error) {
	dir, err := root.OpenDir(localDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var files [2][]byte
	for i, name := range []string{metastore.SnapshotFile, metastore.JournalFile} {
		b, err := vfs.ReadFile(dir, name, localMax)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case b == nil:
			files[i] = []byte{}
		default:
			files[i] = b
		}
	}
	if files[0] == nil && files[1] == nil {
		return nil, nil
	}
	s, _, err := metastore.ReplayState(files[0], files[1])
	return s, err
}

// retireLocal renames the directory whose contents were taken over. One that was not, or that was changed since, is an error:
// nobody can say which of the two metastores is right.
func retireLocal(root vfs.Dir) error {
	local, err := readLocal(root)
	if err != nil || local == nil {
		return err
	}
	dir, err := root.OpenDir(raftDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	var from origin
	b, err := vfs.ReadFile(dir, importFile, 1<<16)
	if err == nil {
		err = json.Unmarshal(b, &from)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || from != (origin{local.Sequence(), local.Topics()}) {
		return fmt.Errorf("there are two metastores, in %s and in %s, and the one is not made of the other: move away the one that is not wanted", localDir, raftDir)
	}
	if err := root.Rename(localDir, importedDir); err != nil {
		return err
	}
	return root.Sync()
}

// files are those of Raft and of the replica.
type files struct {
	logs      *raftboltdb.BoltStore
	snapshots *hraft.FileSnapshotStore
	disk      *disk
}

func (f *files) close() (err error) {
	if f.logs != nil {
		err = f.logs.Close()
	}
	if f.disk != nil {
		err = errors.Join(err, f.disk.close())
	}
	return err
}

func openFiles(dir string, c Config) (f files, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.logs, err = openLogs(filepath.Join(dir, logFile), c.noSync); err != nil {
		return f, err
	}
	if f.snapshots, err = hraft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, newLogger(c.Logger)); err != nil {
		return f, err
	}
	f.disk, err = openDisk(filepath.Join(dir, fsmFile), c.noSync)
	return f, err
}

func openLogs(path string, noSync bool) (logs *raftboltdb.BoltStore, err error) {
	defer asCorrupt(path, &err)
	if err := whole(path); err != nil {
		return nil, err
	}
	logs, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(noSync), NoSync: noSync})
	if errors.Is(err, bbolt.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", path, vfs.ErrLocked)
	}
	if err != nil {
		return nil, unopened(path, err)
	}
	return logs, nil
}

// fill makes the files of a new node. The state, if there is one, becomes the replica and a snapshot of it, at the entry of the
// first configuration: voters that join later get it from there.
func fill(dir string, c Config, state *metastore.State) error {
	f, err := openFiles(dir, c)
	if err != nil {
		return err
	}
	defer f.close()
	var servers hraft.Configuration
	for _, p := range c.Peers {
		servers.Servers = append(servers.Servers, hraft.Server{ID: hraft.ServerID(p.ID), Address: hraft.ServerAddress(p.Addr)})
	}
	_, trans := hraft.NewInmemTransport("")
	if err := hraft.BootstrapCluster(c.raftConfig(hraft.ServerID(c.NodeID)), f.logs, f.logs, f.snapshots, trans, servers); err != nil {
		return err
	}
	if state == nil {
		return f.close()
	}
	all, err := state.Records()
	if err != nil {
		return err
	}
	if err := f.disk.write(all, position{1, 1, state.Sequence()}); err != nil {
		return err
	}
	sink, err := f.snapshots.Create(hraft.SnapshotVersionMax, 1, 1, servers, 1, trans)
	if err != nil {
		return err
	}
	err = f.disk.db.View(func(tx *bbolt.Tx) error { _, err := tx.WriteTo(sink); return err })
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return errors.Join(sink.Close(), f.close())
}

// fit reports whether the replica and Raft's files belong together, and whether the replica has to be restored from a snapshot.
func (f *files) fit(at position) (restore bool, err error) {
	bad := func(file, format string, a ...any) (bool, error) {
		return false, &metastore.CorruptError{File: raftDir + "/" + file, Why: fmt.Sprintf(format, a...) + "; restore all of the directory from one copy"}
	}
	first, err1 := f.logs.FirstIndex()
	last, err2 := f.logs.LastIndex()
	snapshots, err3 := f.snapshots.List()
	if err := errors.Join(err1, err2, err3); err != nil {
		return false, err
	}
	newest := uint64(0)
	if len(snapshots) > 0 {
		newest = snapshots[0].Index
	}
	switch {
	case max(last, newest) == 0:
		return bad(logFile, "there is no log and no snapshot")
	case at.index > max(last, newest):
		return bad(logFile, "the log ends at entry %d and the replica has applied entry %d", max(last, newest), at.index)
	case last > 0 && first > max(at.index, newest)+1:
		return bad(logFile, "the log begins at entry %d, and nothing holds those before %d", first, first)
	}
	return newest > at.index, nil
}

// voters returns the newest configuration. Behind a snapshot that came from another voter the log may have a hole, so only what
// follows the newest snapshot is looked at.
func (f *files) voters() ([]hraft.Server, error) {
	snapshots, err := f.snapshots.List()
	if err != nil {
		return nil, err
	}
	var newest hraft.SnapshotMeta
	if len(snapshots) > 0 {
		newest = *snapshots[0]
	}
	last, err := f.logs.LastIndex()
	if err != nil {
		return nil, err
	}
	for i := last; i > newest.Index; i-- {
		var l hraft.Log
		if err := f.logs.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("entry %d of %s: %w", i, logFile, err)
		}
		if l.Type == hraft.LogConfiguration {
			return hraft.DecodeConfiguration(l.Data).Servers, nil
		}
	}
	return newest.Configuration.Servers, nil
}

// identity returns the name of this node among the voters.
func (f *files) identity(c Config) (hraft.ServerID, error) {
	servers, err := f.voters()
	if err != nil {
		return "", err
	}
	for _, s := range servers {
		if string(s.ID) == c.NodeID {
			return s.ID, nil
		}
	}
	if len(servers) == 1 && len(c.Peers) == 1 {
		return servers[0].ID, nil
	}
	return "", fmt.Errorf("this node, %q, is none of the voters %v that %s names", c.NodeID, servers, raftDir)
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := vfs.OS{}.OpenRoot(path, false)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
