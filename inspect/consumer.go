package inspect

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"narad/committer"
	"narad/vfs"
)

// identity is what the engine gives the committer for a partition: it ties consumer state to an incarnation.
func (o owner) identity() uint64 {
	if !o.known {
		return 0 // any will do
	}
	h := fnv.New64a()
	h.Write([]byte(o.incarnation))
	h.Write([]byte{byte(o.partition), byte(o.partition >> 8), byte(o.partition >> 16), byte(o.partition >> 24)})
	return h.Sum64()
}

// aheadFile looks at a consumer.ahead. A file is what it is whoever owns it; that of another partition counts
// for nothing.
func (x *inspector) aheadFile(d vfs.Dir, n *Node, o owner) {
	slots, err := committer.ReadSlots(d, o.identity())
	if err != nil {
		x.unread(n, err)
		return
	}
	raw := x.slotHeads(d)
	n.Ahead = &AheadFile{Newest: slots.Newest}
	for i := range slots.Slot {
		n.Ahead.Slots[i] = slotOf(i, slots, raw[i], o)
	}
	x.judgeSlots(n, slots)
	if slots.Size > 2*aheadSlotSize {
		x.warn(n, 2*aheadSlotSize, "ahead-size", fmt.Sprintf("the file has %d bytes, two slots are %d", n.Size, 2*aheadSlotSize), "None: what follows the second slot is never read.")
	}
	if w := slots.Newest; w >= 0 {
		s := slots.Slot[w].State
		n.Summary = settledText(s.Committed, len(s.Ahead), ranges(s.Ahead))
		n.Summary += fmt.Sprintf(" (slot %d, sequence %d)", w, slots.Slot[w].Sequence)
	} else {
		n.Summary = "no usable slot: it settles nothing"
	}
}

// slotHeads returns the first bytes of the two slots, as far as they are there.
func (x *inspector) slotHeads(d vfs.Dir) (heads [2][]byte) {
	f, err := d.Open(aheadName)
	if err != nil {
		return heads // reported by the reader of the slots, which sees the same
	}
	defer f.Close()
	for i := range heads {
		b := make([]byte, 16)
		got, _ := f.ReadAt(b, int64(i)*aheadSlotSize)
		heads[i] = b[:got]
	}
	return heads
}

func slotOf(i int, slots committer.Slots, head []byte, o owner) Slot {
	r := slots.Slot[i]
	s := Slot{Offset: int64(i) * aheadSlotSize}
	if errors.Is(r.Err, committer.ErrBlank) {
		s.State, s.Why = "blank", "never written"
		return s
	}
	if len(head) > 5 {
		s.Magic, s.Version = preview(head[:4]), int(head[4])
		s.Encoding = [...]string{1: "bitmap", 2: "runs", 3: ""}[min(head[5], 3)]
	}
	if r.Err == nil || errors.Is(r.Err, committer.ErrForeign) {
		s.Identity, s.Sequence, s.Frontier = fmt.Sprintf("%016x", r.Identity), r.Sequence, r.State.Committed
		s.Ahead, s.Ranges = len(r.State.Ahead), ranges(r.State.Ahead)
	}
	if o.known && s.Identity != "" {
		owned := r.Identity == o.identity()
		s.Owned = &owned
	}
	switch {
	case r.Err != nil:
		s.State, s.Why = "unusable", slotReason(r.Err)
	case i == slots.Newest:
		s.State, s.Why = "newest", "it has the highest sequence; a start takes it and makes it the anchor"
	default:
		s.State, s.Why = "older", r.Lost+"; the next tick writes here"
	}
	return s
}

func slotReason(err error) string {
	var c *committer.CorruptError
	if errors.As(err, &c) {
		err = c.Cause
	}
	switch {
	case errors.Is(err, committer.ErrChecksum):
		return "the checksum does not match"
	case errors.Is(err, committer.ErrMagic):
		return "it does not begin with NAAH"
	case errors.Is(err, committer.ErrForeign):
		return "its identity is that of another partition or incarnation"
	}
	return err.Error()
}

// judgeSlots reports slots that hold nothing usable. A torn one is what a crash leaves, as long as the other holds.
func (x *inspector) judgeSlots(n *Node, slots committer.Slots) {
	for i, r := range slots.Slot {
		if r.Err == nil || errors.Is(r.Err, committer.ErrBlank) {
			continue
		}
		at := int64(i) * aheadSlotSize
		what := fmt.Sprintf("slot %d is unusable: %s", i, slotReason(r.Err))
		torn := errors.Is(r.Err, committer.ErrChecksum) || errors.Is(r.Err, committer.ErrMagic) || errors.Is(r.Err, committer.ErrLength)
		switch other := slots.Slot[1-i]; {
		case torn && other.Err == nil && !x.clean:
			x.note(n, at, "slot-torn", what+"; the other one holds",
				"A power failure in the middle of a tick leaves this. The other slot counts; at most the acks of the last second or so are forgotten, and their messages delivered again.")
		case other.Err == nil:
			x.damage(n, at, aheadSlotSize, "slot", what+"; the other one holds",
				fmt.Sprintf("If this slot was the newer one, acks are forgotten: messages above offset %d that were acked after it may be delivered again. None is lost.", other.State.Committed), adviceState)
		case torn && errors.Is(other.Err, committer.ErrBlank) && !x.clean:
			x.warn(n, at, "slot-first", what+"; the other one was never written",
				"A power failure during the first tick of a partition leaves this, and then nothing is forgotten that was promised. If acks are older than that, they are forgotten as far as consumer.offset does not have them, and their messages delivered again.")
		default:
			state := "unusable, too"
			if errors.Is(other.Err, committer.ErrBlank) {
				state = "blank"
			}
			x.damage(n, at, aheadSlotSize, "slot", what+"; the other one is "+state,
				"What is settled is taken from consumer.offset alone, which is up to 30 seconds older, if it is there. Messages acked since are delivered again. None is lost.", adviceState)
		}
	}
}

// offsetFile looks at a consumer.offset.
func (x *inspector) offsetFile(d vfs.Dir, n *Node) {
	_, r, err := committer.Recover(onlyOffset{d}, 0, math.MaxInt64)
	if err != nil {
		x.unread(n, err)
		return
	}
	switch {
	case r.OffsetErr != nil:
		n.Summary = "counts as absent"
		var c *committer.CorruptError
		cause := r.OffsetErr
		if errors.As(cause, &c) {
			cause = c.Cause
		}
		x.damage(n, 0, n.Size, "offset", fmt.Sprintf("it holds no frontier: %v", cause),
			"The file counts as absent; consumer.ahead alone says what is settled.", adviceState)
	case n.Size == 0:
		n.Summary = "empty: it counts as absent"
	default:
		n.Frontier = &r.OffsetFrontier
		n.Summary = settledText(r.OffsetFrontier, 0, "")
	}
}

// onlyOffset is a partition's directory without its consumer.ahead.
type onlyOffset struct{ vfs.Dir }

func (d onlyOffset) Open(name string) (vfs.File, error) {
	return alias{d.Dir, offsetName, offsetName}.Open(name)
}
