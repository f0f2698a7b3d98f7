package model

import (
	"maps"
	"slices"
)

// Dropped is a lease that a jump of the frontier ended.
type Dropped struct {
	Offset int64
	Nonce  int64
}

// Jump is told that the frontier moved from from to oldest-1, because the log holds nothing below oldest any more, and returns the
// leases that went with it (INF-32, INF-33).
func (p *Partition) Jump(from, oldest int64) ([]Dropped, error) {
	switch {
	case !p.open:
		return nil, Violate("INV-29", "the frontier jumped without a shard")
	case from != p.committed:
		return nil, Violate("INV-29", "the frontier jumped from %d, it was %d", from, p.committed)
	case oldest-1 <= from || oldest > p.HW:
		return nil, Violate("INV-29", "the frontier jumped from %d to %d, the high watermark is %d", from, oldest-1, p.HW)
	}
	for o := from + 1; o < oldest; o++ {
		if !p.IsSettled(o) {
			p.at(o).skipped = true
		}
		p.pass(o)
	}
	var dropped []Dropped
	for _, o := range slices.Sorted(maps.Keys(p.leases)) {
		if o < oldest {
			dropped = append(dropped, Dropped{o, p.leases[o].Nonce})
			delete(p.leases, o)
			p.at(o).last = GivenBack
		}
	}
	p.committed = oldest - 1
	p.advance()
	return dropped, nil
}
