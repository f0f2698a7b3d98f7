package check

import (
	"fmt"
	"slices"

	"narad/committer"
	"narad/engine"
	"narad/sim/disk"
	"narad/sim/model"
)

// What the committer writes is what the live shard held when it was asked last, and in the file it is what the event says.

// asked is the state that a task of the node was told last.
type asked struct {
	key       engine.Key
	committed int64
	ahead     int
}

// tellsState notes what a task was told of a shard.
func (n *Node) tellsState(v engine.ConsumerSnapshot) {
	if n.told == nil {
		n.told = map[int64]asked{}
	}
	n.told[n.World.Current().ID()] = asked{v.Key, v.State.Committed, len(v.State.Ahead)}
}

// writesState checks that a window has what its task was told last, and nothing older (COM-37, INF-39).
func (n *Node) writesState(v committer.WindowWritten) {
	s, ok := n.told[n.World.Current().ID()]
	key := engine.Key{Topic: v.Key.Topic, Partition: v.Key.Partition}
	if !ok || s.key != key || s.committed != v.Committed || s.ahead != v.Ahead {
		n.fail(model.Violate("COM-37", "a window of %v has frontier %d and %d ahead, its shard was asked last and said %d and %d of %v",
			v.Key, v.Committed, v.Ahead, s.committed, s.ahead, s.key))
	}
	if v.Err == nil && v.Stored < v.Ahead && n.overflows < overflowsRead {
		n.overflows++
		n.keepsLowest(n.parts[key], v)
	}
}

// overflowsRead bounds how many windows of a world are read from the disk.
const overflowsRead = 3

// keepsLowest reads a window into which not everything fits, and checks that it has the lowest offsets (INV-13, COM-36).
func (n *Node) keepsLowest(p *part, v committer.WindowWritten) {
	dir, err := disk.FS(n.Machine.Disk().Clone()).OpenRoot(directoryOf(p.key), false)
	if err != nil {
		return // set aside meanwhile
	}
	defer dir.Close()
	slots, err := committer.ReadSlots(dir, 0)
	if err != nil || p.model.Taken() == nil || len(p.model.Taken().Ahead) < v.Stored {
		return
	}
	if has := slots.Slot[v.Slot].State.Ahead; !slices.Equal(has, p.model.Taken().Ahead[:v.Stored]) {
		n.failPart(p, model.Violate("INV-13", "%d offsets ahead of %d fit a window: the lowest go up to %d, the window has %d from %d on (COM-36)",
			v.Stored, v.Ahead, p.model.Taken().Ahead[v.Stored-1], len(has), first(has)))
	}
}

func first(offsets []int64) int64 {
	if len(offsets) == 0 {
		return -1
	}
	return offsets[0]
}

// directoryOf is where a partition is on the disk of its node.
func directoryOf(key engine.Key) string {
	return fmt.Sprintf("data/topics/%s/p%05d", key.Topic, key.Partition)
}
