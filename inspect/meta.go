package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"narad/metastore"
	"narad/vfs"
)

// meetTopics learns what topics there are, silently: the walk over the metastore's directory says what is wrong
// with it.
func (x *inspector) meetTopics() {
	root := x.dataDir()
	if root == nil {
		return
	}
	defer root.Close()
	if onRaft(root) {
		x.meetReplica()
		return
	}
	d, err := root.OpenDir(metastoreName)
	if err != nil {
		return
	}
	defer d.Close()
	var files [2][]byte
	for i, name := range []string{metastore.SnapshotFile, metastore.JournalFile} {
		b, err := vfs.ReadFile(d, name, metaBytesMax)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		if files[i] = b; err == nil && b == nil {
			files[i] = []byte{}
		}
	}
	topics, _, err := metastore.Replay(files[0], files[1])
	if err != nil {
		return
	}
	x.known, x.topics = true, make(map[string]metastore.Topic, len(topics))
	for _, t := range topics {
		x.topics[t.Name] = t
	}
}

// topicNames returns the names of the metastore's topics in order.
func (x *inspector) topicNames() []string {
	names := make([]string, 0, len(x.topics))
	for name := range x.topics { // order-free: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// metastoreDirectory looks at the two files of the metastore, and at what they say together.
func (x *inspector) metastoreDirectory(d vfs.Dir, n *Node, entries []vfs.Info) {
	n.Kind = KindMetastoreDir
	var snapshot, journal []byte
	var of [2]*Node
	damage := x.report.Totals.Damage + x.report.Totals.Unread
	for _, e := range entries {
		c := x.child(n, e)
		switch {
		case e.Dir:
			x.stray(d, c)
		case c.Kind == KindSnapshot:
			of[0], snapshot = c, x.slurp(d, c)
			x.snapshotFile(c, snapshot)
		case c.Kind == KindJournal:
			of[1], journal = c, x.slurp(d, c)
			x.journalFile(c, journal)
		default:
			x.stray(d, c)
		}
	}
	n.Summary = "metastore"
	if x.report.Totals.Damage+x.report.Totals.Unread > damage {
		n.Summary = "metastore, damaged"
		return // what they say together is worth nothing
	}
	topics, r, err := metastore.Replay(snapshot, journal)
	if err != nil {
		at, why, about := int64(-1), err.Error(), n
		var c *metastore.CorruptError
		if errors.As(err, &c) {
			at, why = c.Offset, c.Why
			for _, f := range of {
				if f != nil && f.Name == c.File {
					about = f
				}
			}
		}
		x.damage(about, at, 0, "metastore", why, effectMeta, adviceMeta)
		return
	}
	if r.Created {
		n.Summary = "metastore of a store that is being created: no topics"
		if snapshot == nil && journal != nil {
			x.note(n, -1, "metastore-created", "there is an empty journal and no snapshot: the first start stopped half-way", "None: the next start goes on.")
		}
		return
	}
	n.Metastore = &Metastore{Sequence: r.Sequence, Changes: r.Replayed, Topics: topicsOf(topics)}
	n.Summary = fmt.Sprintf("metastore, %s after change %d", plural(int64(len(topics)), "topic", "topics"), r.Sequence)
}

const (
	effectMeta = "The broker refuses to start rather than forget topics."
	adviceMeta = "Copy the data directory, then restore the directory metastore from a snapshot of the volume. The directories below topics tell which topics there were."
)

func topicsOf(topics []metastore.Topic) []Topic {
	list := make([]Topic, 0, len(topics))
	for _, t := range topics {
		list = append(list, Topic{t.Name, t.ID, t.Partitions})
	}
	return list
}

// snapshotFile looks at a snapshot of the metastore; nil could not be read.
func (x *inspector) snapshotFile(n *Node, b []byte) {
	if b == nil {
		return
	}
	s, err := metastore.DecodeSnapshot(b)
	if err != nil {
		x.metaDamage(n, err)
		return
	}
	n.Metastore = &Metastore{Store: fmt.Sprintf("%x", s.Store), Sequence: s.Sequence, Topics: topicsOf(s.Topics)}
	n.Summary = fmt.Sprintf("%s after change %d", plural(int64(len(s.Topics)), "topic", "topics"), s.Sequence)
}

// journalFile looks at a journal of the metastore; nil could not be read.
func (x *inspector) journalFile(n *Node, b []byte) {
	if b == nil {
		return
	}
	j, err := metastore.DecodeJournal(b, func(c metastore.JournalChange) {
		if x.room(len(n.Changes)) {
			n.Changes = append(n.Changes, Change{Sequence: c.Sequence, At: c.At, Op: c.Op, Topic: c.Topic.Name, ID: c.Topic.ID})
		} else if x.o.Records {
			n.Withheld++
		}
	})
	n.Metastore = &Metastore{Store: fmt.Sprintf("%x", j.Store), Sequence: j.Last, Changes: j.Changes}
	if err != nil {
		x.metaDamage(n, err)
		return
	}
	n.Summary = fmt.Sprintf("no change after %d", j.Sequence)
	if j.Changes > 0 {
		n.Summary = fmt.Sprintf("changes %d to %d", j.Sequence+1, j.Last)
	}
	if cut := int64(len(b)) - j.End; cut > 0 && x.clean {
		x.damage(n, j.End, cut, "journal-tail-after-clean-stop", "the last change is not whole, though the last stop was graceful",
			"The broker cuts it off: the last creation, change or deletion of a topic is forgotten.", adviceMeta)
	} else if cut > 0 {
		x.note(n, j.End, "journal-torn-tail", "an unfinished change", "The broker cuts "+bytesText(cut)+" off at the next start. The change had not been answered, if the last stop was a crash in the middle of it.")
	}
}

func (x *inspector) metaDamage(n *Node, err error) {
	n.Summary = "damaged"
	at, why := int64(0), err.Error()
	var c *metastore.CorruptError
	if errors.As(err, &c) {
		at, why = c.Offset, c.Why
	}
	x.damage(n, at, 0, "metastore", why, effectMeta, adviceMeta)
}
