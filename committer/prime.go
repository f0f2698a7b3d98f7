package committer

import (
	"errors"
	"fmt"
	"io/fs"

	"narad/vfs"
)

// primeStep primes the partition if nothing is held for it and it has a live shard.
func (c *Committer) primeStep(d dirtied) {
	k := d.key
	if c.current(d) != nil || !c.begin(k) {
		return // windowStep marks again what a forget is holding up
	}
	defer c.end()
	s, identity, ok := c.snapshot(k)
	if !ok || !c.proceed() {
		return
	}
	p := &part{key: k, path: c.o.Path(k), turn: c.roster.turnOf(k), identity: identity, dir: s.Dir}
	p.roles = primeRoles(Slots{Newest: noSlot}, c.env.Now())
	c.now.Primed++
	c.count(p)
	ev := Primed{Key: k, Anchor: noSlot, Start: c.env.Now()}
	f, err := c.prime(p, &ev, true)
	switch {
	case err == errStrands:
		c.install(p)
		c.strand(p)
		return
	case err != nil:
		ev.Err = err
		c.fail(err) // windowStep finds nothing primed and marks k again
	default:
		c.install(p)
		if !c.keep(p, f) {
			f.Close()
		}
		c.change(p, func() { c.roster.stamp(p) })
		ev.Anchor = p.anchor
		if p.unflushed {
			c.handed = append(c.handed, handed{p: p, prime: &ev})
			return
		}
	}
	ev.End = c.env.Now()
	c.o.Event(ev)
}

// touchStep makes durable what k's consumer.ahead holds after an unclean start. With a shard that is a prime,
// and the window that follows it; without one the file is primed and nothing is held.
func (c *Committer) touchStep(k Key) {
	if !c.begin(k) {
		c.touchAgain(k)
		return
	}
	defer c.end()
	_, identity, alive := c.snapshot(k)
	switch {
	case alive:
		c.again(k)
	case identity == 0:
	case !c.proceed():
		c.touchAgain(k)
	default:
		c.primeUnheld(k, identity)
	}
}

func (c *Committer) touchAgain(k Key) {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster.touch(k, now)
}

// primeUnheld primes k and keeps nothing. A directory or file that is gone leaves nothing to do.
func (c *Committer) primeUnheld(k Key, identity uint64) {
	p := &part{key: k, path: c.o.Path(k), identity: identity}
	c.now.Primed++
	c.count(p)
	ev := Primed{Key: k, Anchor: noSlot, Start: c.env.Now()}
	f, err := c.prime(p, &ev, false)
	if err == nil && p.unflushed {
		if err = f.(vfs.DeviceSyncer).FlushDevice(); err != nil {
			c.suspect(k)
			f.Close()
		}
	}
	switch {
	case err == errStrands:
		return
	case err != nil:
		ev.Err = err
		c.fail(err)
		c.touchAgain(k)
	default:
		f.Close()
		c.trust(k)
		ev.Anchor = p.anchor
	}
	ev.End = c.env.Now()
	c.o.Event(ev)
}

// install makes p the state held for its key.
func (c *Committer) install(p *part) {
	c.trust(p.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster.parts[p.key] = p
}

// prime makes everything durable that a later window write relies on, and fills in p. It returns
// consumer.ahead, which it makes only if create says so.
func (c *Committer) prime(p *part, ev *Primed, create bool) (vfs.File, error) {
	turn := c.o.Naming(p.key)
	turn.Lock()
	defer turn.Unlock()
	dir, err := c.pin(p.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if p.dir != (vfs.ID{}) && p.dir != dir.ID() {
		return nil, errStrands // the shard was seeded from another directory
	}
	p.dir = dir.ID()
	f, err := c.openAhead(p, dir, ev, create)
	if err != nil {
		return nil, err
	}
	slots, err := c.primeFile(p, dir, f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("committer: prime %v: %w", p.key, err)
	}
	if !ev.Created && slots.unwritten() {
		// No prime has succeeded since it was made. Perhaps the sync of its name failed, or another one of the directory did.
		if f, err = c.rebuild(p, dir, f); err != nil {
			return nil, err
		}
	}
	p.file = f.ID()
	p.roles = primeRoles(slots, c.env.Now())
	c.env.Point("committer: primed, window not written")
	return f, nil
}

// openAhead opens or creates consumer.ahead inside dir, and confirms that p's path still leads to dir.
func (c *Committer) openAhead(p *part, dir vfs.Dir, ev *Primed, create bool) (vfs.File, error) {
	f, err := dir.Open(AheadFile)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, errStrands
		}
		f, err = dir.Create(AheadFile)
		ev.Created = err == nil
	}
	if err != nil {
		return nil, fmt.Errorf("committer: open %s of %v: %w", AheadFile, p.key, err)
	}
	if err = c.same(p.path, p.dir); err == nil && c.isSuspect(p.key) {
		return c.rebuild(p, dir, f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (c *Committer) isSuspect(k Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, yes := c.roster.suspect[k]
	return yes
}

// rebuild replaces consumer.ahead, whose sync, or the sync of whose name, may have failed, by a new file with its newest
// record: a second sync of the old one could not be believed (D4). It closes old.
func (c *Committer) rebuild(p *part, dir vfs.Dir, old vfs.File) (vfs.File, error) {
	slots, err := readSlots(old, p.identity)
	old.Close()
	if err != nil {
		return nil, err
	}
	data := make([]byte, aheadSize)
	if slots.Newest != noSlot {
		copy(data, slots.Slot[slots.Newest].raw)
	}
	if err := vfs.ReplaceFile(dir, AheadFile, data); err != nil {
		return nil, fmt.Errorf("committer: rebuild %s of %v: %w", AheadFile, p.key, err)
	}
	f, err := dir.Open(AheadFile)
	if err != nil {
		return nil, fmt.Errorf("committer: open rebuilt %s of %v: %w", AheadFile, p.key, err)
	}
	return f, nil
}

// primeFile extends the file to both slots, reads them, and makes file and name durable.
//
// The newest record may be in the page cache of a process that died, or even in pages that a failed sync of
// that process left clean, where a sync of ours would find nothing to do. So its bytes are written
// again, unchanged, before the sync. The directory is synced also when the file was there: the process that
// made it may have died in between.
func (c *Committer) primeFile(p *part, dir vfs.Dir, f vfs.File) (Slots, error) {
	size, err := f.Size()
	if err != nil {
		return Slots{}, err
	}
	if size < aheadSize {
		if _, err := f.WriteAt(make([]byte, aheadSize-size), size); err != nil {
			return Slots{}, err
		}
	}
	slots, err := readSlots(f, p.identity)
	if err != nil {
		return Slots{}, err
	}
	if n := slots.Newest; n != noSlot {
		if _, err := f.WriteAt(slots.Slot[n].raw, int64(n)*slotSize); err != nil {
			return Slots{}, err
		}
	}
	c.env.Point("committer: prime not synced")
	flushed, err := syncFile(f)
	if err != nil {
		c.suspect(p.key)
		return Slots{}, err
	}
	if _, err := syncFile(dir); err != nil {
		c.suspect(p.key)
		return Slots{}, err
	}
	p.unflushed = !flushed
	return slots, nil
}

// suspect notes that a sync of k's prime failed, trust that a prime succeeded since.
func (c *Committer) suspect(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster.suspect[k] = struct{}{}
}

func (c *Committer) trust(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.roster.suspect, k)
}
