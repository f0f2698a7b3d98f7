package tap

import (
	"errors"

	"narad/sim/disk"
	"narad/sim/recorder"
	"narad/vfs"
)

// ErrNoRecord reports a power cut on a file system that keeps no record.
var ErrNoRecord = errors.New("tap: no record is kept")

// Recording returns a file system that counts, hands on to below, and keeps a record. It must see the files from their
// creation on, and it holds their contents in memory.
func Recording(below vfs.FS) *FS {
	r := recorder.New(below, disk.New(disk.Adversarial), nil)
	return &FS{below: r, record: r}
}

// Cut is what was recorded up to one instant.
type Cut struct{ disk *disk.Disk }

// CutPower returns the record as it is now. The caller reads the clock before and after: the loss of power happens between.
func (t *FS) CutPower() (Cut, error) {
	if t.record == nil {
		return Cut{}, ErrNoRecord
	}
	return Cut{t.record.Cut()}, nil
}

// Least returns the image in which nothing survived that was not synced.
func (c Cut) Least() vfs.FS { return disk.FS(c.disk.Durable()) }

// Image returns one of the images that the loss of power may leave, drawn by choose: any subset of unsynced sectors, sizes
// and names.
func (c Cut) Image(choose disk.Chooser) vfs.FS {
	d := c.disk.Clone()
	d.PowerLoss(choose)
	return disk.FS(d)
}
