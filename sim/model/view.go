package model

import (
	"maps"
	"slices"
)

// AheadOffsets returns the offsets that are settled above the frontier, sorted.
func (p *Partition) AheadOffsets() []int64 { return slices.Sorted(maps.Keys(p.settled)) }

// Leased returns the offsets that are leased, sorted.
func (p *Partition) Leased() []int64 { return slices.Sorted(maps.Keys(p.leases)) }
