package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every flavour holds on a few seeds and reaches what it is for.
func TestFlavours(t *testing.T) {
	reaches := map[Profile][]string{
		CancelProfile:    {"S-02"},
		PinnedProfile:    {"S-03 expiry"},
		SparseProfile:    {"S-03 expiry", "S-03 nack", "S-10"},
		CapsProfile:      {"S-04", "S-08", "S-09", "a waiter is parked at the in-flight cap"},
		SlowDiskProfile:  {"a hung commit gave up its slot", "records of one destination were passed over"},
		ReadErrorProfile: {"records of one destination were passed over"},
		LockstepProfile:  {"S-01", "S-02", "S-06"},
		BigProfile:       {"a batch was cut"},
		GapProfile:       {"S-24", "S-25", "the frontier jumped over a retention gap"},
		RotProfile:       {"S-26 head", "S-26 middle", "S-07"},
		ParkedProfile:    {"S-03 expiry"},
	}
	seeds := map[Profile]int{SlowDiskProfile: 20, LockstepProfile: 20, BigProfile: 3, ParkedProfile: 15, GapProfile: 40, RotProfile: 20, WideProfile: 2}
	for _, f := range flavours {
		t.Run(string(f.profile), func(t *testing.T) {
			n := 10
			if seeds[f.profile] > 0 {
				n = seeds[f.profile]
			}
			s := Campaign{Profile: f.profile, First: 1, Seeds: n}.Run(func(r Result) {
				require.NoError(t, r.Err, "seed %d", r.Seed)
			})
			require.Positive(t, s.Total.Quiets, "nothing was ever at rest")
			for _, goal := range reaches[f.profile] {
				require.Positive(t, s.Total.Goals[goal], "%s was never reached", goal)
			}
		})
	}
}

// S-11, S-23: the seeds of the default profile that are wide tear a window and fill a slot.
func TestWideSeeds(t *testing.T) {
	reached := map[string]int{}
	for _, seed := range []uint64{12, 37, 137} {
		r := Run(Options{Seed: seed})
		require.NoError(t, r.Err, "seed %d", seed)
		for goal, n := range r.Goals { // order-free: sums
			reached[goal] += n
		}
	}
	require.Positive(t, reached["S-11 torn"])
	require.Positive(t, reached["S-23"])
}
