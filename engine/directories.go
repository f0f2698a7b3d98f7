package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"narad/vfs"
)

// A topic's directory is topics/<name>. Its file incarnation holds the id of the incarnation it belongs to; only that one
// is ever served from it. Two kinds of directories stand beside it for a while:
//
//	topics/<name>.next-<id>   of a purge: the directory of the incarnation id, which has the name as soon as the metastore
//	                          says so, and then moves to topics/<name>
//	topics/<name>.stale-<id>  of the incarnation id, which is gone; it is removed in the background
//
// A topic may be called like that as well. So what a name ending means is decided only for names that no topic has.
const (
	incarnationFile = "incarnation"
	nextMark        = ".next-"
	staleMark       = ".stale-"
)

var staleName = regexp.MustCompile(`\` + staleMark + `[0-9a-f]{16}$`)

func nextName(t Topic) string { return t.Name + nextMark + t.ID }

// makeTree makes the directory tree of a topic at topics/name durable. The name must be free.
func (e *Engine) makeTree(name string, t Topic) error {
	topics, err := e.root.OpenDir(topicsDir)
	if err != nil {
		return err
	}
	defer topics.Close()
	if err := topics.Mkdir(name); err != nil {
		return err
	}
	dir, err := topics.OpenDir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := vfs.ReplaceFile(dir, incarnationFile, []byte(t.ID)); err != nil {
		return err
	}
	if err := makePartitions(dir, 0, t.Partitions); err != nil {
		return err
	}
	return topics.Sync()
}

// makePartitions makes the directories of the partitions [from, to) in a topic's directory durable. What an earlier attempt
// left empty is made anew.
func makePartitions(dir vfs.Dir, from, to int32) error {
	for i := from; i < to; i++ {
		if err := makePartition(dir, fmt.Sprintf("p%05d", i)); err != nil {
			return err
		}
	}
	return dir.Sync()
}

// makePartition makes one directory, and one that is there and empty anew: perhaps the sync of its name failed, so that another one would
// tell nothing (vfs D4). One with files in it was in use, and so durable, and is taken.
func makePartition(dir vfs.Dir, name string) error {
	err := dir.Mkdir(name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if empty, err := isEmpty(dir, name); err != nil || !empty {
		return err
	}
	if err := dir.Remove(name); err != nil {
		return err
	}
	return dir.Mkdir(name)
}

func isEmpty(dir vfs.Dir, name string) (bool, error) {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	entries, err := sub.List()
	return len(entries) == 0, err
}

// incarnationAt reads whose directory topics/name is.
func (e *Engine) incarnationAt(name string) (string, error) {
	dir, err := e.root.OpenDir(topicsDir + "/" + name)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	id, err := vfs.ReadFile(dir, incarnationFile, 1<<20) // whatever else it may hold is a wrong id
	return string(id), err
}

// setAside durably renames topics/name, whatever it holds, so that its incarnation is never served again, and leaves it to
// the janitor. A missing directory is none to set aside.
func (e *Engine) setAside(name, id string) error {
	topics, err := e.root.OpenDir(topicsDir)
	if err != nil {
		return err
	}
	defer topics.Close()
	stale := name + staleMark + id
	for { // somebody may have called a topic like that
		_, err := topics.Stat(stale)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		stale = name + staleMark + e.newIncarnation()
	}
	if err := topics.Rename(name, stale); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := topics.Sync(); err != nil {
		return err
	}
	e.emit(SetAside{name, stale})
	e.janitor.remove(stale)
	return nil
}

// place moves the directory of a purged topic's new incarnation to where its name leads, and setting aside what is there.
func (e *Engine) place(t Topic) error {
	id, err := e.incarnationAt(t.Name)
	switch {
	case err == nil && id == t.ID:
		return e.syncTopics() // an earlier attempt came as far as this
	case err == nil:
		if err := e.setAside(t.Name, id); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	e.env.Point("engine: old directory set aside, new one not in place")
	if err := e.root.Rename(topicPath(nextName(t)), topicPath(t.Name)); err != nil {
		return err
	}
	return e.syncTopics()
}

func (e *Engine) syncTopics() error {
	topics, err := e.root.OpenDir(topicsDir)
	if err != nil {
		return err
	}
	defer topics.Close()
	return topics.Sync()
}

// adoptTopic takes a topic of the metastore into service. Its directory must be there and must belong to the same
// incarnation: a missing one means that a volume was lost, and nothing is recreated silently. A purge that a crash
// interrupted behind its commit point is completed.
func (e *Engine) adoptTopic(info Topic) error {
	id, err := e.incarnationAt(info.Name)
	if err != nil || id != info.ID {
		next, nerr := e.incarnationAt(nextName(info))
		switch {
		case nerr == nil && next == info.ID:
			if err := e.place(info); err != nil {
				return fmt.Errorf("topic %s: complete a purge: %w", info.Name, err)
			}
			id, err = info.ID, nil
		case nerr != nil && !errors.Is(nerr, fs.ErrNotExist): // a disk that does not answer is no missing directory
			return fmt.Errorf("topic %s: whether a purge is to be completed cannot be read: %w", info.Name, nerr)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damagedTopic(info, fmt.Errorf("it, or the topic's directory, is missing; restore it from a snapshot: %w", err))
	case err != nil:
		return fmt.Errorf("topic %s: its directory is unreadable: %w", info.Name, err)
	case id != info.ID:
		return damagedTopic(info, fmt.Errorf("the directory belongs to incarnation %.40q, the topic is incarnation %q", id, info.ID))
	}
	e.swapTopic(nil, newTopic(e, info, true))
	e.emit(TopicOpened{info})
	return nil
}

func damagedTopic(info Topic, cause error) error {
	return &CorruptError{File: topicPath(info.Name) + "/" + incarnationFile, Cause: cause}
}

// clearTopics deals with the directories that belong to no topic: of deleted topics, and of creations and purges that did
// not come to their commit point. Each is set aside first, so that nothing ever takes it for the directory of a topic
// again. Where the metastore is new and has lost its contents, nothing is touched.
func (e *Engine) clearTopics(fresh bool) error {
	topics, err := e.root.OpenDir(topicsDir)
	if err != nil {
		return err
	}
	defer topics.Close()
	entries, err := topics.List()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, known := e.meta.Get(entry.Name); known || !entry.Dir {
			continue
		}
		if fresh {
			return &CorruptError{File: metastoreDir, Cause: fmt.Errorf("there is no metastore, but topics/%s exists: restore both from one snapshot", entry.Name)}
		}
		if staleName.MatchString(entry.Name) {
			e.janitor.remove(entry.Name)
			continue
		}
		if err := e.setAside(entry.Name, e.newIncarnation()); err != nil {
			return err
		}
	}
	return nil
}
