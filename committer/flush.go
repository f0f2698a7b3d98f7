package committer

import (
	"fmt"

	"narad/vfs"
)

// handed is a prime or a writeout that is durable once its device has emptied its cache. One flush serves all of a
// tick's on a device (COM-59).
type handed struct {
	p     *part
	prime *Primed
	out   *WrittenOut
}

// syncFile makes f durable, or hands it to a device whose flush is still to come.
func syncFile(f interface{ Sync() error }) (flushed bool, err error) {
	if d, ok := f.(vfs.DeviceSyncer); ok {
		return false, d.SyncToDevice()
	}
	return true, f.Sync()
}

// flushDevices flushes each device that something was handed to, once, and ends those primes and writeouts.
func (c *Committer) flushDevices() {
	for len(c.handed) > 0 {
		device := c.handed[0].p.file.Device
		var same, others []handed
		for _, h := range c.handed {
			if h.p.file.Device == device {
				same = append(same, h)
			} else {
				others = append(others, h)
			}
		}
		err := c.flushDevice(same)
		for _, h := range same {
			c.withPart(h.p, func(*part) { c.flushed(h, err) })
		}
		c.handed = others
	}
}

// flushDevice flushes the device of all of these through the first file that it can use.
func (c *Committer) flushDevice(same []handed) (err error) {
	done := false
	for _, h := range same {
		c.withPart(h.p, func(p *part) {
			var f vfs.File
			if f, err = c.access(p, false); err != nil {
				return
			}
			c.env.Point("committer: at the device, not flushed")
			err = f.(vfs.DeviceSyncer).FlushDevice()
			done = true
			c.giveBack(p, f)
		})
		if done {
			break
		}
	}
	return err
}

// flushed ends a prime or a writeout after the flush of its device.
func (c *Committer) flushed(h handed, err error) {
	switch {
	case h.out != nil:
		c.endWriteout(h.p, h.out, true, err)
		return
	case err == nil:
		c.change(h.p, func() { h.p.unflushed = false })
	default:
		c.unprime(h.p)
		h.prime.Anchor, h.prime.Err = noSlot, fmt.Errorf("committer: prime %v: %w", h.p.key, err)
		c.fail(h.prime.Err)
	}
	h.prime.End = c.env.Now()
	c.o.Event(*h.prime)
}

// unprime takes back a prime whose device failed; what its syncs wrote is not to be believed.
func (c *Committer) unprime(p *part) {
	c.mu.Lock()
	_, f := c.roster.forget(p.key)
	c.roster.suspect[p.key] = struct{}{}
	c.roster.mark(p.key)
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
}
