package inspect

import (
	"errors"
	"fmt"
	"slices"

	"narad/metastore"
	"narad/vfs"
)

// Names of a data directory whose metastore is on Raft. Who runs such a node tells this package what is in it, by
// [Options.Metastore].
const (
	raftName     = "raft"
	raftDraft    = "raft.new"
	importedName = "metastore.imported"
	passwordName = "admin-password"
)

// onRaft reports whether the metastore of a data directory is on Raft.
func onRaft(root vfs.Dir) bool {
	info, err := root.Stat(raftName)
	return err == nil && info.Dir
}

// meetReplica learns the topics of a metastore on Raft, silently; raftDirectory says what is wrong with it.
func (x *inspector) meetReplica() {
	if x.o.Metastore == nil {
		x.replica.err = errors.ErrUnsupported
		return
	}
	x.replica.topics, x.replica.sequence, x.replica.err = x.o.Metastore(x.root, x.o.Verify)
	if x.replica.err != nil {
		return
	}
	x.known, x.topics = true, make(map[string]metastore.Topic, len(x.replica.topics))
	for _, t := range x.replica.topics {
		x.topics[t.Name] = t
	}
}

// raftDirectory tells of the metastore on Raft.
func (x *inspector) raftDirectory(d vfs.Dir, n *Node) {
	n.Kind, n.Size = KindMetastoreDir, x.sizeBelow(d, n.Name)
	n.Summary = "metastore on Raft"
	var corrupt *metastore.CorruptError
	switch err := x.replica.err; {
	case err == nil:
		n.Summary += fmt.Sprintf(", %s after change %d", plural(int64(len(x.replica.topics)), "topic", "topics"), x.replica.sequence)
		n.Metastore = &Metastore{Sequence: x.replica.sequence, Topics: topicsOf(x.replica.topics)}
	case errors.Is(err, errors.ErrUnsupported):
		n.Summary += "; not looked into"
	case errors.Is(err, vfs.ErrLocked):
		n.Summary += "; not looked into: a broker has it open"
	case errors.As(err, &corrupt):
		n.Summary += ", damaged"
		x.damage(n, -1, 0, "metastore", fmt.Sprintf("%s: %s", corrupt.File, corrupt.Why), effectMeta,
			"Copy the data directory, then restore the directory raft, all of it, from a snapshot of the volume. The directories below topics tell which topics there were.")
	default:
		x.unread(n, err)
	}
}

// beside tells of what else a node on Raft leaves in its data directory; it reports whether it knows the name.
func (x *inspector) beside(d vfs.Dir, n *Node) bool {
	switch {
	case n.dir && n.Name == importedName:
		n.Kind, n.Size = KindLeftover, x.sizeBelow(d, n.Name)
		n.Summary = "metastore that was taken over by the one on Raft; not looked into"
		x.note(n, -1, "imported", "the metastore of an older version, of which the first state of the one on Raft was made", "None: it is never read again. It takes "+bytesText(n.Size)+".")
	case n.dir && n.Name == raftDraft:
		n.Kind, n.Size = KindLeftover, x.sizeBelow(d, n.Name)
		n.Summary = "metastore on Raft that was being made"
		x.note(n, -1, "raft-created", "the first start stopped half-way", "None: the next start makes it anew.")
	case !n.dir && n.Name == passwordName:
		n.Kind = KindPassword
		n.Summary = "password of the user root, drawn at the first start"
		x.note(n, -1, "password", "a password that can be read by whoever owns the directory", "None for the data. Read it, change it, remove the file.")
	default:
		return false
	}
	return true
}

// required are the directories that a data directory must have.
func required(entries []vfs.Info) []string {
	if slices.ContainsFunc(entries, func(e vfs.Info) bool { return e.Dir && e.Name == raftName }) {
		return []string{topicsName, ingressName}
	}
	return []string{topicsName, ingressName, metastoreName}
}
