package raft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"narad/metastore"
	"narad/vfs"

	"go.etcd.io/bbolt"
)

// readLockWait is how long Read waits for a node that has the files open.
const readLockWait = 100 * time.Millisecond

// Read returns the topics that the replica in a data directory holds, and after how many changes, without a node and without
// changing anything. With verify it reads every page of both files. Errors: vfs.ErrLocked while a node has them open, a
// *metastore.CorruptError for damage.
func Read(dataDir string, verify bool) (topics []metastore.Topic, sequence uint64, err error) {
	dir := filepath.Join(dataDir, raftDir)
	for _, name := range []string{logFile, fsmFile} {
		if err := present(dir, name); err != nil {
			return nil, 0, err
		}
	}
	if verify {
		if err := readBolt(filepath.Join(dir, logFile), everyPage); err != nil {
			return nil, 0, err
		}
	}
	var state *metastore.State
	err = readBolt(filepath.Join(dir, fsmFile), func(tx *bbolt.Tx) error {
		if verify {
			if err := everyPage(tx); err != nil {
				return err
			}
		}
		at, err := getPosition(tx)
		if err != nil {
			return err
		}
		state, err = metastore.LoadState(at.sequence, records(tx))
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	shown := metastore.NewReplica(nil)
	shown.Show(state)
	return shown.List("", 0), state.Sequence(), nil
}

// everyPage checks that all pages of a file belong together.
func everyPage(tx *bbolt.Tx) error {
	var all []error
	for err := range tx.Check() {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// whole refuses a file that is shorter than it says. bbolt maps files, and to read behind the end of one would end the process.
func whole(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 { // it is made, or refused, by who opens it
		return nil
	}
	return readBolt(path, func(*bbolt.Tx) error { return nil })
}

// readBolt reads from a file, which it does not change.
func readBolt(path string, read func(*bbolt.Tx) error) (err error) {
	defer asCorrupt(path, &err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: readLockWait})
	if errors.Is(err, bbolt.ErrTimeout) {
		return fmt.Errorf("%s: %w", path, vfs.ErrLocked)
	}
	if err != nil {
		return unopened(path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return errors.Join(err, fmt.Errorf("it ends before byte %d, where its last page does", tx.Size()))
		}
		return read(tx)
	})
	if err != nil {
		return &metastore.CorruptError{File: path, Why: err.Error()}
	}
	return nil
}
