package inspect

import (
	"fmt"
	"io"
	"strings"

	"narad/metastore"
	"narad/vfs"
)

// dataDirectory looks at a whole data directory. The metastore comes first: it says what the rest must be.
func (x *inspector) dataDirectory(d vfs.Dir, n *Node, entries []vfs.Info) {
	n.Kind = KindDataDir
	x.meetTopics()
	for _, e := range entries {
		c := x.child(n, e)
		switch {
		case e.Dir && e.Name == topicsName:
			x.sub(d, c, x.topicsDirectory)
		case e.Dir && e.Name == ingressName:
			x.sub(d, c, x.ingressParent)
		case e.Dir && e.Name == metastoreName:
			x.sub(d, c, x.metastoreDirectory)
		case e.Dir && e.Name == raftName:
			x.raftDirectory(d, c)
		case x.beside(d, c):
		case !e.Dir && c.Kind == KindClean:
			x.cleanMarkFile(d, c)
		case !e.Dir && c.Kind == KindLock:
			x.markFile(c)
		case e.Dir && e.Name == ".moves":
			c.Kind = KindOther
			c.Size = x.sizeBelow(d, e.Name)
			c.Summary = "of another release of Narad; not looked at"
			x.note(c, -1, "other-release", "a directory that other releases of Narad keep here", "None for this release.")
		default:
			x.stray(d, c)
		}
	}
	for _, name := range required(entries) {
		if !has(entries, name) {
			x.damage(n, -1, 0, "missing-directory", fmt.Sprintf("the directory %s is missing", name), "The broker makes an empty one: whatever was in it is gone, and with topics left in the metastore it refuses to start.", adviceKeep)
		}
	}
	n.Summary = "data directory"
	if x.known {
		n.Summary += ", " + plural(int64(len(x.topics)), "topic", "topics")
	}
	switch {
	case x.clean:
		n.Summary += ", stopped gracefully"
	case x.report.Locked:
		n.Summary += ", not stopped gracefully"
	default:
		n.Summary += ", not stopped gracefully or still running"
	}
}

func has(entries []vfs.Info, name string) bool {
	for _, e := range entries {
		if e.Name == name {
			return true
		}
	}
	return false
}

// ingressParent looks at the directory above the ingress log.
func (x *inspector) ingressParent(d vfs.Dir, n *Node, entries []vfs.Info) {
	n.Kind = KindIngressDir
	for _, e := range entries {
		c := x.child(n, e)
		if e.Dir && e.Name == produceName {
			x.sub(d, c, x.ingressDirectory)
			n.Summary = c.Summary
			continue
		}
		x.stray(d, c)
	}
	if !has(entries, produceName) {
		x.damage(n, -1, 0, "missing-directory", "the directory produce is missing", "The broker makes an empty one: what was accepted and not yet dispatched is gone.", adviceKeep)
	}
}

// topicsDirectory looks at all topics, and at what else lies there.
func (x *inspector) topicsDirectory(d vfs.Dir, n *Node, entries []vfs.Info) {
	n.Kind = KindTopicsDir
	served := 0
	for _, e := range entries {
		c := x.child(n, e)
		name, _, stale := strings.Cut(e.Name, staleMark)
		t, exists := x.topics[e.Name]
		switch {
		case !e.Dir:
			x.stray(d, c)
		case exists:
			served++
			x.sub(d, c, func(d vfs.Dir, c *Node, entries []vfs.Info) { x.topicDirectory(d, c, entries, &t) })
		case stale:
			c.Kind, c.Size = KindStaleDir, x.sizeBelow(d, e.Name)
			c.Summary = fmt.Sprintf("set aside: an incarnation of %s that is gone; not looked into", name)
			x.note(c, -1, "stale", "a directory of an incarnation that is gone, set aside", "None: it is never served. It takes "+bytesText(c.Size)+".")
		case metastore.ValidateName(e.Name) != nil:
			x.stray(d, c)
		default:
			served++
			x.sub(d, c, func(d vfs.Dir, c *Node, entries []vfs.Info) { x.topicDirectory(d, c, entries, nil) })
			if x.known {
				x.warn(c, -1, "topic-unknown", "the metastore holds no topic of this name",
					"The directory is not served. A creation or deletion that stopped half-way leaves it; the next creation of the name sets it aside. If there are messages in it that matter, the metastore has lost the topic.")
			}
		}
	}
	n.Summary = plural(int64(served), "topic", "topics")
	for _, name := range x.topicNames() {
		if !has(entries, name) {
			x.damage(n, -1, 0, "topic-missing", fmt.Sprintf("topic %s is in the metastore and has no directory", name),
				"The broker refuses to start: all messages of the topic are gone.", "Restore topics/"+name+" from a snapshot of the volume.")
		}
	}
}

// topicDirectory looks at one topic; t is what the metastore says of it, nil when it says nothing.
func (x *inspector) topicDirectory(d vfs.Dir, n *Node, entries []vfs.Info, t *metastore.Topic) {
	n.Kind = KindTopicDir
	if t == nil {
		if known, ok := x.topics[n.Name]; ok {
			t = &known
		}
	}
	for _, e := range entries {
		if e.Name == incarnationName && !e.Dir {
			want := ""
			if t != nil {
				want = t.ID
			}
			x.incarnationFile(d, x.child(n, e), want)
			n.ID = n.Children[0].ID
		}
	}
	if n.ID == "" && !has(entries, incarnationName) {
		x.damage(n, -1, 0, "incarnation-missing", "the file incarnation is missing", "The broker refuses to start: it does not know whose messages these are.", adviceIncarnation(t))
	}
	found := int32(0)
	for _, e := range entries {
		index, ok := parsePartitionName(e.Name)
		switch {
		case e.Name == incarnationName && !e.Dir:
		case ok && e.Dir:
			c := x.child(n, e)
			o := owner{known: n.ID != "", incarnation: n.ID, partition: index}
			x.sub(d, c, func(d vfs.Dir, c *Node, entries []vfs.Info) { x.partitionDirectory(d, c, entries, o) })
			if t != nil && index >= t.Partitions {
				x.warn(c, -1, "partition-extra", fmt.Sprintf("the topic has %d partitions", t.Partitions), "It is not served.")
				break
			}
			found++
		case e.Dir && strings.Contains(e.Name, ".quarantine"):
			c := x.child(n, e)
			c.Kind, c.Size = KindOther, x.sizeBelow(d, e.Name)
			c.Summary = "a copy that was set aside; not looked at"
			x.note(c, -1, "other-release", "a copy of a partition that another release set aside", "None: it is never served.")
		default:
			x.stray(d, x.child(n, e))
		}
	}
	n.Summary = fmt.Sprintf("topic, %s", plural(int64(found), "partition", "partitions"))
	if n.ID != "" {
		n.Summary += ", incarnation " + n.ID
	}
	if t == nil {
		return
	}
	for i := range t.Partitions {
		if name := fmt.Sprintf("p%05d", i); !has(entries, name) {
			x.damage(n, -1, 0, "partition-missing", fmt.Sprintf("partition %d has no directory", i),
				"All its messages are gone, and those that producers send to it cannot be dispatched.", "Restore "+name+" from a snapshot of the volume.")
		}
	}
}

func adviceIncarnation(t *metastore.Topic) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("If the directory is surely that of this topic, write %s into the file, without a newline; otherwise restore it.", t.ID)
}

// incarnationBytes is how long an incarnation is.
const incarnationBytes = 16

// incarnationFile looks at the file with a topic's incarnation; want is the metastore's, "" when it says nothing.
func (x *inspector) incarnationFile(d vfs.Dir, n *Node, want string) {
	x.open(d, n, func(s *source) {
		b := make([]byte, min(s.size, incarnationBytes+1))
		got, err := s.file.ReadAt(b, 0)
		if err != nil && err != io.EOF {
			x.unread(n, &readError{int64(got), err})
			return
		}
		id := string(b[:got])
		if !validID(id) {
			n.Summary = "no incarnation"
			at := int64(0)
			if len(id) > incarnationBytes && validID(id[:incarnationBytes]) {
				at = incarnationBytes
			}
			x.damage(n, at, 0, "incarnation", fmt.Sprintf("%q (%s) is no incarnation: that is 16 digits out of 0-9 a-f and nothing else", preview(b[:got]), bytesText(s.size)),
				"The broker refuses to start.", adviceIncarnation(x.topicOf(want)))
			return
		}
		n.ID, n.Summary = id, id
		if want != "" && id != want {
			x.damage(n, 0, incarnationBytes, "incarnation-mismatch", fmt.Sprintf("the directory belongs to incarnation %s, the topic in the metastore is %s", id, want),
				"The broker refuses to start rather than serve the messages of another topic.",
				"Find out which of the two is older: the metastore, or the directory, was restored or copied from elsewhere. Restore both from the same snapshot.")
		}
	})
}

func (x *inspector) topicOf(id string) *metastore.Topic {
	if id == "" {
		return nil
	}
	return &metastore.Topic{ID: id}
}
