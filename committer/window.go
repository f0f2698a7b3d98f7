package committer

import (
	"fmt"

	"narad/env"
	"narad/vfs"
)

// windowStep writes the live state of a partition into its window.
func (c *Committer) windowStep(d dirtied) {
	k := d.key
	if !c.begin(k) {
		c.again(k)
		return
	}
	defer c.end()
	snapshotAt := c.env.Now()
	s, identity, ok := c.snapshot(k)
	if !ok {
		return // no shard, no write
	}
	c.env.Point("committer: snapshot taken, not written")
	if !c.proceed() {
		c.again(k)
		return
	}
	switch p := c.current(d); {
	case p == nil: // its prime failed, or a forget came after it
		c.again(k)
	case p.identity != identity || s.Dir != (vfs.ID{}) && s.Dir != p.dir:
		c.supersede(p)
	case p.unflushed: // its prime failed for the device, or a forget is under way
		c.again(k)
	case p.stranded:
		c.change(p, func() { p.missed = true })
	default:
		c.count(p)
		c.writeWindow(p, s, snapshotAt)
	}
}

// supersede drops the state of a shard that another one followed before its forget came. The next tick
// primes for the new one.
func (c *Committer) supersede(p *part) {
	c.mu.Lock()
	_, f := c.roster.forget(p.key)
	c.roster.mark(p.key)
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

func (c *Committer) writeWindow(p *part, s State, snapshotAt env.Instant) {
	ev := WindowWritten{
		Key: p.key, Slot: p.window(), Sequence: p.seq + 1,
		Committed: s.Committed, Ahead: len(s.Ahead), SnapshotAt: snapshotAt,
	}
	c.buf, ev.Stored = appendRecord(c.buf[:0], record{identity: p.identity, seq: ev.Sequence, state: s})
	f, err := c.access(p, p.recheck)
	if err == errStrands {
		c.change(p, func() { p.missed = true })
		c.strand(p)
		return
	}
	if err == nil {
		_, err = f.WriteAt(c.buf, int64(ev.Slot)*slotSize)
		c.change(p, func() {
			p.recheck = err != nil
			c.roster.stamp(p)
			if err != nil {
				p.tore(ev.Sequence, snapshotAt)
			} else {
				p.wrote(ev.Sequence, s.Committed, snapshotAt)
			}
		})
		c.giveBack(p, f)
	} else {
		c.change(p, func() { p.recheck = true })
	}
	if err != nil {
		ev.Err = fmt.Errorf("committer: window of %v: %w", p.key, err)
		c.fail(ev.Err)
		c.again(p.key)
	}
	ev.End = c.env.Now()
	c.o.Event(ev)
}

// writeoutStep makes the window of p durable and flips the roles, then levels consumer.offset if that is due.
func (c *Committer) writeoutStep(p *part) {
	c.withPart(p, func(p *part) {
		if p.unsynced {
			c.writeout(p)
		}
	})
}

func (c *Committer) writeout(p *part) {
	ev := WrittenOut{Key: p.key, Slot: p.window(), Sequence: p.seq, Committed: p.written}
	f, err := c.access(p, !p.confirmed || p.recheck)
	p.confirmed = false
	if err == errStrands {
		c.strand(p)
		return
	}
	ev.Start = c.env.Now()
	synced, flushed := err == nil, true
	if synced {
		c.env.Point("committer: window written, not synced")
		flushed, err = syncFile(f)
		if err == nil { // after a failed sync there is nothing that a crash could interrupt, and what it left is told at once
			c.env.Point("committer: window synced, not flipped")
		}
	}
	c.giveBack(p, f)
	if err == nil && !flushed {
		c.handed = append(c.handed, handed{p: p, out: &ev})
		return
	}
	c.endWriteout(p, &ev, synced, err)
}

// endWriteout flips the roles after a writeout that succeeded, and then levels consumer.offset if that is due. synced
// says whether a sync was tried.
func (c *Committer) endWriteout(p *part, ev *WrittenOut, synced bool, err error) {
	c.change(p, func() {
		if err != nil {
			p.failed(synced)
			p.recheck = true
		} else {
			p.writtenOut()
		}
	})
	if err != nil {
		ev.Err = fmt.Errorf("committer: writeout of %v: %w", p.key, err)
		c.fail(ev.Err)
		c.again(p.key)
	}
	ev.End = c.env.Now()
	c.o.Event(*ev)
	if err == nil && p.levelDue(c.env.Now()) {
		c.level(p)
	}
}
