package raft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"narad/metastore"
	"narad/vfs"

	"go.etcd.io/bbolt"
)

const (
	formatVersion = 1
	metaBucket    = "meta"
	lockWait      = time.Second // for another process that has the file open
)

// buckets in the order in which a state is loaded.
var buckets = []string{metastore.TopicBucket, metastore.SchemaBucket, metastore.UserBucket}

// position is how far the entries of the log have been applied.
type position struct {
	index, term, sequence uint64
}

// disk is the replica in its file.
type disk struct {
	db *bbolt.DB
}

// openDisk opens the file, or makes an empty one.
func openDisk(path string, noSync bool) (*disk, error) {
	db, err := openBolt(path, noSync)
	if err != nil {
		return nil, err
	}
	made := false
	_ = db.View(func(tx *bbolt.Tx) error {
		made = tx.Bucket([]byte(metaBucket)) != nil
		return nil
	})
	if made {
		return &disk{db}, nil
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([]string{metaBucket}, buckets...) {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return putPosition(tx, position{})
	})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &disk{db}, nil
}

func boltOptions(noSync bool) *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoSync: noSync}
}

// openBolt opens a file. What it has open already belongs to another process.
func openBolt(path string, noSync bool) (db *bbolt.DB, err error) {
	defer asCorrupt(path, &err)
	if err := whole(path); err != nil {
		return nil, err
	}
	db, err = bbolt.Open(path, 0o600, boltOptions(noSync))
	if errors.Is(err, bbolt.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", path, vfs.ErrLocked)
	}
	if err != nil {
		return nil, unopened(path, err)
	}
	return db, nil
}

// unopened says whether a file that bbolt does not open is damaged, or the system refused something.
func unopened(path string, err error) error {
	var refused *fs.PathError
	if errors.As(err, &refused) {
		return err
	}
	return &metastore.CorruptError{File: path, Why: err.Error()}
}

// asCorrupt turns a panic of bbolt, which is its answer to pages that cannot be, into an error.
func asCorrupt(path string, err *error) {
	if r := recover(); r != nil {
		*err = &metastore.CorruptError{File: path, Why: fmt.Sprint(r)}
	}
}

func putPosition(tx *bbolt.Tx, p position) error {
	meta := tx.Bucket([]byte(metaBucket))
	for key, value := range map[string]uint64{"format": formatVersion, "index": p.index, "term": p.term, "sequence": p.sequence} {
		if err := meta.Put([]byte(key), binary.BigEndian.AppendUint64(nil, value)); err != nil {
			return err
		}
	}
	return nil
}

func getPosition(tx *bbolt.Tx) (position, error) {
	meta := tx.Bucket([]byte(metaBucket))
	if meta == nil {
		return position{}, errors.New("there is no bucket meta")
	}
	var values [4]uint64
	for i, key := range []string{"format", "index", "term", "sequence"} {
		b := meta.Get([]byte(key))
		if len(b) != 8 {
			return position{}, fmt.Errorf("meta: %s has %d bytes", key, len(b))
		}
		values[i] = binary.BigEndian.Uint64(b)
	}
	if values[0] != formatVersion {
		return position{}, fmt.Errorf("format %d, this program knows %d", values[0], formatVersion)
	}
	return position{values[1], values[2], values[3]}, nil
}

// load reads all of the file.
func (d *disk) load() (s *metastore.State, p position, err error) {
	defer asCorrupt(d.db.Path(), &err)
	err = d.db.View(func(tx *bbolt.Tx) error {
		if p, err = getPosition(tx); err != nil {
			return err
		}
		s, err = metastore.LoadState(p.sequence, records(tx))
		return err
	})
	if err != nil {
		return nil, position{}, &metastore.CorruptError{File: d.db.Path(), Why: err.Error()}
	}
	return s, p, nil
}

// records walks through the records of a state. They are valid until the next.
func records(tx *bbolt.Tx) iter.Seq[metastore.Record] {
	return func(yield func(metastore.Record) bool) {
		for _, name := range buckets {
			b := tx.Bucket([]byte(name))
			if b == nil {
				yield(metastore.Record{Bucket: name + ", which is missing,"})
				return
			}
			c := b.Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				if !yield(metastore.Record{Bucket: name, Key: k, Value: v}) {
					return
				}
			}
		}
	}
}

// write makes changed records and how far they go durable, in one transaction.
func (d *disk) write(changed []metastore.Record, p position) error {
	return d.db.Update(func(tx *bbolt.Tx) error {
		for _, r := range changed {
			b := tx.Bucket([]byte(r.Bucket))
			var err error
			if r.Value == nil {
				err = b.Delete(r.Key)
			} else {
				err = b.Put(r.Key, r.Value)
			}
			if err != nil {
				return err
			}
		}
		return putPosition(tx, p)
	})
}

// size returns the bytes of the file.
func (d *disk) size() int64 {
	var n int64
	_ = d.db.View(func(tx *bbolt.Tx) error { n = tx.Size(); return nil })
	return n
}

func (d *disk) close() error { return d.db.Close() }

// receive writes a stream into a file and syncs it.
func receive(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
