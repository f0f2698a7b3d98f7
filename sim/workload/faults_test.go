package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// COM-16, COM-25, COM-47, COM-48, COM-62, LOG-25, WAL-11, S-11, S-12, S-13, S-15, S-16, S-18, S-22, S-42: worlds whose disk fails for a
// while in every way that the contract survives violate nothing, and do reach what they are made for.
func TestDiskFaults(t *testing.T) {
	reached := map[string]int{}
	for _, c := range []Campaign{{Profile: DiskFaultProfile, First: 1, Seeds: 60}, {Profile: FewFilesProfile, First: 1, Seeds: 60}} {
		s := c.Run(func(r Result) { require.NoError(t, r.Err, "%s seed %d", c.Profile, r.Seed) })
		for goal, n := range s.Total.Goals { // order-free: sums
			reached[goal] += n
		}
	}
	for _, kind := range faultKinds {
		require.Positive(t, reached["faults: "+kind.name])
	}
	for _, goal := range []string{
		"S-11 before prime", "S-11 primed",
		"S-12", "S-13", "S-15", "S-16", "S-18", "S-22", "S-42",
	} {
		require.Positive(t, reached[goal], goal)
	}
}
