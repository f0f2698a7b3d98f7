package tap

import (
	"errors"
	"sync"

	"narad/sim/disk"
	"narad/vfs"
)

// record repeats changes on a simulated disk. mu makes a change and its repetition one step, so that the record has the
// order of the real files; a nil record does nothing.
type record struct {
	mu   sync.Mutex
	disk *disk.Disk
	fs   vfs.FS
}

// ErrNoRecord reports a power cut on a file system that keeps no record.
var ErrNoRecord = errors.New("tap: no record is kept")

// Recording returns a file system that counts, hands on to below, and keeps a record. It must see the files from their
// creation on, and it holds their contents in memory. Drives with a cache that an ordinary sync does not empty are not
// recorded rightly.
func Recording(below vfs.FS) *FS {
	d := disk.New(disk.Adversarial)
	return &FS{below: below, record: &record{disk: d, fs: disk.FS(d)}}
}

func (r *record) lock() (unlock func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	return r.mu.Unlock
}

func (r *record) openRoot(name string) (vfs.Dir, error) {
	if r == nil {
		return nil, nil
	}
	return r.fs.OpenRoot(name, true)
}

// Cut is what was recorded up to one instant.
type Cut struct{ disk *disk.Disk }

// CutPower returns the record as it is now. The caller reads the clock before and after: the loss of power happens between.
func (t *FS) CutPower() (Cut, error) {
	if t.record == nil {
		return Cut{}, ErrNoRecord
	}
	defer t.record.lock()()
	return Cut{t.record.disk.Clone()}, nil
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
