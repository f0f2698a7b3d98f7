package disk

import (
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
)

// Tally counts what a package's enumeration tests looked at, so that what they prove can be told in one line. Its
// methods may be called by several tasks at once. The zero value is ready.
type Tally struct {
	images    atomic.Uint64
	recovered atomic.Uint64
	skipped   atomic.Uint64
	uncounted atomic.Uint64
	seen      sync.Map // keys of what was recovered
}

// Crashes is [Disk.Crashes] with its images and what the limit skipped counted.
func (t *Tally) Crashes(d *Disk, limit int) iter.Seq[*Disk] {
	return func(yield func(*Disk) bool) {
		var count Count
		for img := range d.CrashesCounted(limit, &count) {
			t.images.Add(1)
			if !yield(img) {
				return // a check has failed; what was left does not count as skipped
			}
		}
		if count.Skipped == math.MaxUint64 {
			t.uncounted.Add(1)
		} else {
			t.skipped.Add(count.Skipped)
		}
	}
}

// Image counts an image that was not made by Crashes.
func (t *Tally) Image() { t.images.Add(1) }

// First reports whether key is new, and counts it as recovered if so. A key stands for an image together with all that its
// recovery has to keep and is configured with: recoveries with equal keys come to the same.
func (t *Tally) First(key [3]uint64) bool {
	if _, seen := t.seen.LoadOrStore(key, nil); seen {
		return false
	}
	t.Recovered()
	return true
}

// Recovered counts an image that was recovered and judged.
func (t *Tally) Recovered() { t.recovered.Add(1) }

// Images returns how many images were checked so far.
func (t *Tally) Images() uint64 { return t.images.Load() }

// String returns the line that a package's tests end with.
func (t *Tally) String() string {
	s := fmt.Sprintf("crash images: %d checked, %d of them distinct and recovered, %d outcomes skipped", t.images.Load(), t.recovered.Load(), t.skipped.Load())
	if n := t.uncounted.Load(); n > 0 {
		s += fmt.Sprintf(" and those of %d crashes with more than can be counted", n)
	}
	return s
}
