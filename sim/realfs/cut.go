package realfs

import (
	"maps"

	"narad/sim/disk"
)

// Crash is how a life ends.
type Crash string

// The crashes.
const (
	Killed    Crash = "killed"     // the process: the page cache stays
	PowerLoss Crash = "power loss" // the unsynced may go
	Graceful  Crash = "graceful stop"
)

// Cut is one instant of a life.
type Cut struct {
	disk  *disk.Disk
	facts *Facts
}

// Image is what a crash left, and what was known then.
type Image struct {
	disk  *disk.Disk
	Crash Crash
	Facts *Facts
}

// withAttemptsOf returns the promises of f and the attempts of a later instant.
func (f *Facts) withAttemptsOf(later *Facts) *Facts {
	for _, m := range later.Messages[len(f.Messages):] {
		m.Accepted = false
		f.Messages = append(f.Messages, m)
	}
	for i := range f.Messages {
		f.Messages[i].AckTried = later.Messages[i].AckTried
	}
	for name, p := range later.Parts {
		if f.Parts[name] == nil {
			continue
		}
		maps.Copy(f.Parts[name].AckTried, p.AckTried)
	}
	f.At = later.At
	return f
}

// Outcomes counts the ways in which a loss of power can go, saturating.
func (c *Cut) Outcomes() uint64 { return c.disk.CrashCount() }

// Kill returns what the death of the process leaves.
func (c *Cut) Kill() *Image { return c.image(c.disk.Clone(), Killed) }

// Stopped returns what a graceful stop leaves.
func (c *Cut) Stopped() *Image { return c.image(c.disk.Clone(), Graceful) }

// Least returns the image in which nothing survived that was not synced.
func (c *Cut) Least() *Image { return c.image(c.disk.Durable(), PowerLoss) }

// Draw returns one of the images that a loss of power may leave.
func (c *Cut) Draw(choose disk.Chooser) *Image {
	d := c.disk.Clone()
	d.PowerLoss(choose)
	return c.image(d, PowerLoss)
}

// Enumerate calls yield with every different image that a loss of power may leave until it says no.
func (c *Cut) Enumerate(yield func(*Image) bool) {
	for d := range c.disk.Crashes(0) {
		if !yield(c.image(d, PowerLoss)) {
			return
		}
	}
}

func (c *Cut) image(d *disk.Disk, crash Crash) *Image {
	if crash != PowerLoss {
		d.ProcessCrash()
	}
	return &Image{d, crash, c.facts}
}
