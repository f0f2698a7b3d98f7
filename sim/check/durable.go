package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"

	"narad/committer"
	"narad/engine"
	"narad/record"
	"narad/segment"
	"narad/sim/model"
	"narad/wal"
)

// Whatever an event says to be durable, a power loss at this very instant must not be able to take. So each such event is held against
// the simulated disk itself, which knows what a sync has covered, contents, sizes and names: a sync that is missing, too early, of
// the wrong file, or believed although one before it failed shows at once, and not only when a crash comes by.
//
// The first element of a path is the data directory, whose own name is not the engine's to sync.

// Paths below the root of the disk.
const (
	dataDir      = "data"
	ingressPath  = dataDir + "/ingress/produce"
	metaPath     = dataDir + "/metastore"
	pointPath    = ingressPath + "/checkpoint"
	topicsPath   = dataDir + "/topics"
	walSuffix    = ".wal"
	logSuffix    = ".log"
	aheadSlot    = 4096 // bytes of a slot of consumer.ahead
	aheadHeader  = 44   // of them before the payload
	aheadSeq     = 16   // where the sequence number is, u64 little-endian
	aheadLength  = 36   // where the length of the payload is, u32 little-endian
	aheadSum     = 40   // where the checksum is, CRC-32C of all but itself, u32 little-endian
	walFrameSeq  = 8    // where a frame of the ingress log has its number
	wholeFile    = -1
	journalFile  = metaPath + "/topics.journal"
	snapshotFile = metaPath + "/topics.snapshot"
)

// walTail is the end of the ingress log: the file that is written, and how far it goes.
type walTail struct {
	file    string
	end     int64
	failed  uint64                 // the segment whose removal failed last: that it may return is no harm, for it lies below the checkpoint
	torn    map[committer.Key]bool // of partitions: the window's last write, or a sync of it, failed, and it was not written since
	latched bool                   // a write, or a sync, of the ingress log failed in this life (WAL-11)
	logs    map[*part]logTail
}

// logTail is the end of an open partition log.
type logTail struct {
	end      int64 // bytes of the newest segment that are committed
	poisoned bool  // it said that it takes no more commits until it is opened again
	// Since then a commit, and a round of retention, was told to have failed.
	refusedCommit, refusedRound bool
	stamp                       int64 // commit time of the newest record, unix milliseconds; 0: not known
}

// claims holds what an event says against the disk.
func (n *Node) claims(v engine.Event) {
	switch v := v.(type) {
	case engine.WAL:
		n.claimWAL(v.Event)
	case engine.Log:
		if p := n.cycle.all[incKey{v.Key, v.Incarnation}]; p != nil && !p.gone && n.parts[v.Key] == p {
			n.claimLog(p, v.Event)
		}
	case engine.Consumer:
		n.claimConsumer(v.Event)
	case engine.Checkpointed:
		n.claimStored(v.Seq)
	case engine.DispatchFailed:
		if !v.Gone {
			n.opensAgain(v.Key, v.Err, func(t *logTail) *bool { return &t.refusedCommit })
		}
	case engine.RetentionFailed:
		n.opensAgain(v.Key, v.Err, func(t *logTail) *bool { return &t.refusedRound })
	case engine.Opened:
		for _, name := range []string{topicsPath, ingressPath} {
			n.claim("INV-02", "the engine is open", name, 0, 0)
		}
		n.claimGone("INV-10", "the engine is open and was stopped uncleanly from here on", dataDir+"/clean")
		n.claimMeta("the engine is open")
	case engine.TopicCreated:
		n.claimTree("a topic was created", topicsPath+"/"+v.Topic.Name, v.Topic)
	case engine.TopicAltered:
		n.claimTree("a topic was altered", topicsPath+"/"+v.Topic.Name, v.Topic)
	case engine.TopicPurged:
		n.claimTree("a topic was purged", nextPath(v.Topic.Name, v.Topic.ID), v.Topic)
	case engine.TopicDeleted:
		n.claimMeta("a topic was deleted")
	case engine.SetAside:
		n.claim("INV-25", "a directory was set aside", topicsPath+"/"+v.Stale, 0, 0)
	}
}

// claim fails when the bytes [from, to) of a file, or a name that leads to it, could be lost.
func (n *Node) claim(invariant, what, path string, from, to int64) {
	if lost := n.Machine.Disk().AtStake(path, from, to); lost != "" {
		n.fail(model.Violate(invariant, "%s, and a power loss now could take of %s: %s", what, path, lost))
	}
}

// claimGone fails when a name could come back.
func (n *Node) claimGone(invariant, what, path string) {
	if n.Machine.Disk().MayReturn(path) {
		n.fail(model.Violate(invariant, "%s, and a power loss now could bring back %s", what, path))
	}
}

// look reads what readers see of a file.
func (n *Node) look(path string, at int64, b []byte) int {
	d := n.Machine.Disk()
	_, ino, err := d.Lookup(d.Root(), path)
	if err != nil {
		return 0
	}
	count, _ := d.ReadAt(ino, b, at)
	return count
}

// newest returns the last file in a directory with a suffix whose number is not above most, and its size.
func (n *Node) newest(dir, suffix string, most uint64) (path string, size int64) {
	d := n.Machine.Disk()
	_, ino, err := d.Lookup(d.Root(), dir)
	if err != nil {
		return "", 0
	}
	entries, _ := d.List(ino)
	limit := fmt.Sprintf("%020d%s", most, suffix)
	for _, e := range entries {
		if strings.HasSuffix(e.Name, suffix) && len(e.Name) == len(limit) && e.Name <= limit {
			path, size = dir+"/"+e.Name, e.Size
		}
	}
	return path, size
}

// claimWAL holds the ingress log against its promises W1 to W6.
func (n *Node) claimWAL(v wal.Event) {
	switch v := v.(type) {
	case wal.Recovered:
		n.tail.torn, n.tail.logs, n.tail.latched = map[committer.Key]bool{}, map[*part]logTail{}, false
		n.tail.file, n.tail.end = n.newest(ingressPath, walSuffix, v.Next)
		n.claim("INV-03", "the ingress log is open", n.tail.file, n.frameAt(v.Checkpoint), wholeFile)
		n.claim("INV-03", "the ingress log is open", pointPath, 0, wholeFile)
	case wal.SegmentRolled:
		n.tail.file, n.tail.end = fmt.Sprintf("%s/%020d%s", ingressPath, v.First, walSuffix), 0
		n.claim("INV-03", "a segment was begun", n.tail.file, 0, 0)
	case wal.RollFailed:
		n.tail.latched = n.tail.latched || failedAt(v.Err, "syncdir")
	case wal.BatchSynced:
		if v.Err == nil && n.tail.latched {
			n.fail(model.Violate("INV-03", "records %d to %d are said to be durable, and the log had failed before in this life (WAL-11)", v.First, v.Next-1))
		}
		n.tail.latched = n.tail.latched || v.Err != nil
		if v.Err == nil {
			n.claim("INV-03", "a batch is said to be durable", n.tail.file, n.tail.end, n.tail.end+int64(v.Bytes))
			n.tail.end += int64(v.Bytes)
		}
	case wal.CheckpointSynced:
		if v.Err == nil {
			n.claimCheckpoint(v.Seq)
		}
	case wal.SegmentRemoved:
		if v.Err != nil {
			n.tail.failed = v.First
		} else if v.First != n.tail.failed {
			n.claimGone("INV-03", "a segment was removed", fmt.Sprintf("%s/%020d%s", ingressPath, v.First, walSuffix))
		}
	}
}

// claimCheckpoint checks that the file holds a checkpoint durably, or a later one.
func (n *Node) claimCheckpoint(seq uint64) {
	if n.Machine.Disk().AtStake(pointPath, 0, wholeFile) == "" {
		return // whatever it is, it was stored last
	}
	if b, there := n.Machine.Disk().DurableFile(pointPath); there && len(b) == 8 && binary.BigEndian.Uint64(b) < seq {
		n.fail(model.Violate("INV-03", "checkpoint %d is said to be durable, the disk has %d", seq, binary.BigEndian.Uint64(b)))
	}
}

// claimStored checks that a killed process leaves a checkpoint, or a later one, in the page cache.
func (n *Node) claimStored(seq uint64) {
	var b [8]byte
	if n.look(pointPath, 0, b[:]) == len(b) && binary.BigEndian.Uint64(b[:]) < seq {
		n.fail(model.Violate("INV-03", "checkpoint %d counts as stored, the file says %d", seq, binary.BigEndian.Uint64(b[:])))
	}
}

// frameAt returns where the frame of a record begins in the last file of the ingress log, its end when it is not there. What lies
// before was durable when it was done.
func (n *Node) frameAt(seq uint64) int64 {
	var b [record.WALHeaderSize]byte
	for at := int64(0); at < n.tail.end; {
		if n.look(n.tail.file, at, b[:]) < len(b) {
			return at
		}
		h, err := record.ParseWALHeader(b[:])
		if err != nil || h.Sequence >= seq {
			return at
		}
		at += int64(h.Size())
	}
	return n.tail.end
}

// directory returns the path of a partition.
func (p *part) directory() string {
	return fmt.Sprintf("%s/%s/p%05d", topicsPath, p.key.Topic, p.key.Partition)
}

// claimLog holds the log of a partition against LOG-02 and LOG-24.
func (n *Node) claimLog(p *part, v segment.Event) {
	tail := n.tail.logs[p]
	switch v := v.(type) {
	case segment.Recovered:
		tail = logTail{}
		if v.Next > v.Oldest { // of a log without records nothing tells how new they were
			tail.stamp = p.stamp
		}
		if p.logFile, tail.end = n.newest(p.directory(), logSuffix, uint64(v.Next)); p.logFile != "" {
			n.claim("INV-04", "a partition log is open", p.logFile, 0, wholeFile)
		}
	case segment.Rolled:
		tail.end = 0
		p.logFile = fmt.Sprintf("%s/%020d%s", p.directory(), v.Base, logSuffix)
		n.claim("INV-04", "a segment was begun", p.logFile, 0, 0)
	case segment.Committed:
		tail.end += v.Bytes
		n.failPart(p, n.stampsRise(p, tail.stamp, v))
		tail.stamp, p.stamp = v.StampMs, v.StampMs
		if tail.poisoned {
			n.failPart(p, model.Violate("INV-04", "offsets %d to %d were committed to a log that had said that it takes none (LOG-25)", v.Base, v.Next-1))
		}
		if p.logFile != "" {
			n.claim("INV-04", "a commit is visible", p.logFile, -v.Bytes, wholeFile)
		}
	case segment.Poisoned:
		tail.poisoned = true
	case segment.CommitFailed:
		n.claimCut(p, tail, v.Err)
	}
	if n.tail.logs == nil { // no log of this life was opened
		n.tail.logs = map[*part]logTail{}
	}
	n.tail.logs[p] = tail
}

// claimCut checks a log whose commit failed: it takes no more, or it ends, durably, where it did before (LOG-06, LOG-25).
func (n *Node) claimCut(p *part, tail logTail, err error) {
	switch d := n.Machine.Disk(); {
	case tail.poisoned:
	case failedAt(err, "sync") || failedAt(err, "syncdir"):
		n.failPart(p, model.Violate("INV-04", "a sync of the log failed, and it goes on (LOG-25): %v", err))
	case p.logFile != "":
		if info, _, err := d.Lookup(d.Root(), p.logFile); err == nil && info.Size != tail.end {
			n.failPart(p, model.Violate("INV-04", "a commit failed and left %s with %d bytes, %d of them committed (LOG-06)", p.logFile, info.Size, tail.end))
		}
	}
}

// opensAgain checks that a log which takes no more commits is opened again, from disk, before it is asked for another one (LOG-25).
// told is where it is noted that the caller has learned so.
func (n *Node) opensAgain(key engine.Key, err error, told func(*logTail) *bool) {
	p := n.parts[key]
	tail, known := n.tail.logs[p]
	if p == nil || p.gone || !known || !tail.poisoned {
		return
	}
	var poison *segment.PoisonedError
	if errors.As(err, &poison) && *told(&tail) {
		n.failPart(p, model.Violate("INV-04", "the log had failed, was not opened again, and was asked once more (LOG-25): %v", err))
	}
	*told(&tail) = true
	n.tail.logs[p] = tail
}

// stampsRise checks that no record is stamped older than one before it, before being the commit time of the newest, 0 when that is not
// known. Where frames rotted, or a power loss left garbage, the log may not know it either.
func (n *Node) stampsRise(p *part, before int64, v segment.Committed) error {
	if v.StampMs >= before || len(p.rotten) > 0 || len(p.garbage) > 0 || p.garbled || n.meddled[p.key] || n.Machine.Disk().Untrue() {
		return nil
	}
	return model.Violate("INV-29", "offset %d is stamped %d, the one before it %d (Q-53)", v.Base, v.StampMs, before)
}

// Unlinked is told of each name that a process of the machine has removed. The file of a segment goes only when it is durable that the log
// begins behind it, or nothing is: else a crash right now leaves a log whose oldest file is missing (RET-04).
func (n *Node) Unlinked(file string) {
	var base uint64
	dir, name := path.Dir(file), path.Base(file)
	key, ok := partitionAt(dir)
	if count, err := fmt.Sscanf(name, "%020d.log", &base); !ok || err != nil || count != 1 || name != fmt.Sprintf("%020d.log", base) {
		return
	}
	p, d := n.parts[key], n.Machine.Disk()
	if p == nil || p.gone || d.Untrue() {
		return
	}
	b, there := d.DurableFile(dir + "/" + segment.BoundsFile)
	oldest, found := int64(0), false
	for i := range 2 {
		if cell, err := segment.ParseBounds(b[min(i*segment.BoundsCellAt, len(b)):]); err == nil {
			oldest, found = max(oldest, cell.Oldest), true
		}
	}
	if there && found && oldest <= int64(base) {
		n.failPart(p, model.Violate("INV-29", "%s was removed, and durably the log still begins at offset %d (RET-04)", name, oldest))
	}
}

// partitionAt returns the partition whose directory has a path.
func partitionAt(dir string) (key engine.Key, ok bool) {
	topic := path.Dir(dir)
	key.Topic = path.Base(topic)
	count, err := fmt.Sscanf(path.Base(dir), "p%05d", &key.Partition)
	return key, path.Dir(topic) == topicsPath && err == nil && count == 1
}

// claimConsumer holds consumer state against COM-15, COM-23 and COM-29.
func (n *Node) claimConsumer(v committer.Event) {
	switch v := v.(type) {
	case committer.WindowWritten:
		if n.tail.torn == nil { // no log of this life was opened
			n.tail.torn = map[committer.Key]bool{}
		}
		if v.Err == nil || failedAt(v.Err, "write") {
			n.tail.torn[v.Key] = v.Err != nil
		}
		if p := n.partOf(v.Key); v.Err == nil && p != nil {
			n.claimRecord(p, "a window was written", v.Slot, v.Sequence)
		}
	case committer.Primed:
		if v.Err == nil {
			delete(n.tail.torn, v.Key)
		}
		if p := n.partOf(v.Key); v.Err == nil && p != nil && !p.gone {
			n.claimSlot(p, "a partition was primed", v.Anchor)
		}
	case committer.WrittenOut:
		switch {
		case v.Err == nil && n.tail.torn[v.Key]:
			n.fail(model.Violate("INV-12", "%v was written out, the last write of its window, or a sync of it, had failed (COM-16)", v.Key))
		case failedAt(v.Err, "sync") && n.tail.torn != nil:
			n.tail.torn[v.Key] = true
		}
		if p := n.partOf(v.Key); v.Err == nil && p != nil && !p.gone {
			n.claimRecord(p, "a window was written out", v.Slot, v.Sequence)
			n.claimSlot(p, "a window was written out", v.Slot)
		}
	case committer.Levelled:
		if p := n.partOf(v.Key); v.Err == nil && p != nil && !p.gone {
			if v.Durable {
				n.claim("INV-14", "consumer.offset was levelled", p.directory()+"/"+committer.OffsetFile, 0, wholeFile)
			}
			n.claimFrontier(p, v.Frontier)
		}
	}
}

// failedAt reports whether it was a call of that kind that failed: one that did not come so far changes nothing.
func failedAt(err error, op string) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Op == op
}

// claimRecord checks that a slot holds, as readers see it, the whole record that is said to be in it.
func (n *Node) claimRecord(p *part, what string, slot int, sequence uint64) {
	var b [aheadSlot]byte
	held := n.look(p.directory()+"/"+committer.AheadFile, int64(slot)*aheadSlot, b[:])
	if held == 0 || n.unaccountable(p) {
		return // the directory was moved meanwhile
	}
	end := aheadHeader + int64(binary.LittleEndian.Uint32(b[aheadLength:]))
	sum := func() uint32 {
		table := crc32.MakeTable(crc32.Castagnoli)
		return crc32.Update(crc32.Checksum(b[:aheadSum], table), table, b[aheadHeader:end])
	}
	if has := binary.LittleEndian.Uint64(b[aheadSeq:]); has != sequence || end > aheadSlot || binary.LittleEndian.Uint32(b[aheadSum:]) != sum() {
		n.failPart(p, model.Violate("INV-12", "%s with sequence number %d, and slot %d does not hold it whole: its own is %d", what, sequence, slot, has))
	}
}

// claimFrontier checks that consumer.offset says what it was levelled to.
func (n *Node) claimFrontier(p *part, frontier int64) {
	var b [8]byte
	held := n.look(p.directory()+"/"+committer.OffsetFile, 0, b[:])
	if has := int64(binary.BigEndian.Uint64(b[:])); held > 0 && has != frontier && !n.unaccountable(p) {
		n.failPart(p, model.Violate("INV-14", "consumer.offset was levelled to %d, and says %d", frontier, has))
	}
}

// unaccountable reports whether the engine may not be blamed for what the files of a partition hold.
func (n *Node) unaccountable(p *part) bool {
	return p.gone || n.meddled[p.key] || n.Machine.Disk().Untrue()
}

// claimSlot checks the record in a slot; with none, -1, the name alone.
func (n *Node) claimSlot(p *part, what string, slot int) {
	path := p.directory() + "/" + committer.AheadFile
	var header [aheadHeader]byte
	from := int64(max(slot, 0)) * aheadSlot
	if slot < 0 || n.look(path, from, header[:]) < len(header) {
		n.claim("INV-12", what, path, 0, 0)
		return
	}
	n.claim("INV-12", what, path, from, from+aheadHeader+int64(binary.LittleEndian.Uint32(header[aheadLength:])))
}

// claimTree checks a topic that exists from now on: its directory, its incarnation, its partitions, and what the metastore says.
func (n *Node) claimTree(what, dir string, t engine.Topic) {
	n.claim("INV-25", what, dir+"/incarnation", 0, wholeFile)
	for i := range t.Partitions {
		n.claim("INV-25", what, fmt.Sprintf("%s/p%05d", dir, i), 0, 0)
	}
	n.claimMeta(what)
}

// claimMeta checks the files of a metastore of one node.
func (n *Node) claimMeta(what string) {
	n.claim("INV-25", what, snapshotFile, 0, wholeFile)
	n.claim("INV-25", what, journalFile, 0, wholeFile)
}

// claimStopped checks what a graceful stop leaves.
func (n *Node) claimStopped() {
	n.allConfirmed()
	if left := n.Machine.Disk().Held(""); left > 0 {
		n.fail(model.Violate("INV-32", "the engine was stopped, and %d files and directories are still open", left))
	}
	for _, p := range n.order {
		if p.slots.levelled && !n.unaccountable(p) { // COM-31
			n.claim("INV-10", "the engine was stopped", p.directory()+"/"+committer.OffsetFile, 0, wholeFile)
		}
		p.slots.levelled = false
	}
	n.claim("INV-10", "the engine was stopped", dataDir+"/clean", 0, wholeFile)
	n.claim("INV-10", "the engine was stopped", pointPath, 0, wholeFile)
}
