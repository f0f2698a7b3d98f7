package model

import (
	"maps"
	"slices"
)

// AheadOffsets returns the offsets that are settled above the frontier, sorted.
func (p *Partition) AheadOffsets() []int64 {
	list := make([]int64, 0, p.settled)
	for o, e := range p.above(p.committed) {
		if e.settled {
			list = append(list, o)
		}
	}
	return list
}

// Leased returns the offsets that are leased, sorted.
func (p *Partition) Leased() []int64 { return slices.Sorted(maps.Keys(p.leases)) }
