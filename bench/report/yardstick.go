package report

import (
	"fmt"
	"time"

	"narad/vfs"
)

// SyncLatency is how long a raw write of 1 KiB and its sync take, on a file that grows and on one that was written before.
type SyncLatency struct {
	Growing   Latency `json:"growing"`
	Prewrite  Latency `json:"prewritten"`
	PerSecond float64 `json:"per_second"` // one after the other, prewritten
}

// String gives medians and tails.
func (s SyncLatency) String() string {
	return fmt.Sprintf("growing file p50 %s p99 %s, prewritten file p50 %s p99 %s (%s a second)",
		Duration(s.Growing.P50), Duration(s.Growing.P99), Duration(s.Prewrite.P50), Duration(s.Prewrite.P99), Number(s.PerSecond))
}

const (
	syncSamples = 400
	syncBytes   = 1024
)

func measureSync(dir string) (s SyncLatency, err error) {
	d, end, err := scratchDir(dir)
	if err != nil {
		return s, err
	}
	defer end()
	if s.Growing, err = timeSyncs(d, "growing", false, syncSamples, 0); err != nil {
		return s, err
	}
	if s.Prewrite, err = timeSyncs(d, "prewritten", true, syncSamples, 0); err != nil {
		return s, err
	}
	s.PerSecond = float64(time.Second) / float64(max(1, s.Prewrite.Mean))
	return s, nil
}

// PacedSync is how long a raw write of 1 KiB and its sync take in a prewritten file when the machine rests between them: n times, with a
// pause before each.
func PacedSync(dir string, n int, pause time.Duration) (Latency, error) {
	d, end, err := scratchDir(dir)
	if err != nil {
		return Latency{}, err
	}
	defer end()
	return timeSyncs(d, "paced", true, n, pause)
}

func scratchDir(dir string) (d vfs.Dir, end func(), err error) {
	path, remove, err := scratch(dir)
	if err != nil {
		return nil, nil, err
	}
	if d, err = (vfs.OS{}).OpenRoot(path, false); err != nil {
		remove()
		return nil, nil, err
	}
	return d, func() { d.Close(); remove() }, nil
}

func timeSyncs(d vfs.Dir, name string, prewrite bool, n int, pause time.Duration) (Latency, error) {
	f, err := d.Create(name)
	if err != nil {
		return Latency{}, err
	}
	defer f.Close()
	if prewrite {
		if _, err := f.WriteAt(make([]byte, n*syncBytes), 0); err != nil {
			return Latency{}, err
		}
		if err := f.Sync(); err != nil {
			return Latency{}, err
		}
	}
	block := make([]byte, syncBytes)
	for i := range block {
		block[i] = byte(i)
	}
	var took []int64
	for i := range n {
		time.Sleep(pause)
		start := time.Now()
		if _, err := f.WriteAt(block, int64(i)*syncBytes); err != nil {
			return Latency{}, err
		}
		if err := f.Sync(); err != nil {
			return Latency{}, err
		}
		took = append(took, int64(time.Since(start)))
	}
	return Distribution(took), nil
}
