package disk

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What AtStake and MayReturn say is held against every image that a power loss can leave, in random programs on both personalities: when
// nothing is at stake, no image differs there. Rules D1 to D4
func TestStakeAgainstImages(t *testing.T) {
	for _, p := range []Personality{Adversarial, Ordered} {
		safe, risky := 0, 0
		for seed := range uint64(400) {
			d := New(p)
			dir, err := d.Mkdir(d.Root(), "data")
			require.NoError(t, err)
			require.NoError(t, d.SyncDir(d.Root()))
			next := func(n uint64) uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return seed >> 33 % n }
			names := []string{"a", "b"}
			for range 8 {
				name := names[next(2)]
				_, f, err := d.Lookup(dir, name)
				there := err == nil
				switch k := next(7); {
				case !there:
					_, err = d.Create(dir, name)
				case k < 2:
					err = d.WriteAt(f, []byte{byte(1 + next(200))}, int64(next(3)*sectorSize))
				case k == 2:
					err = d.Truncate(f, int64(next(2)*sectorSize))
				case k == 3:
					err = d.Sync(f)
				case k == 4:
					err = d.SyncDir(dir)
				case k == 5:
					d.SyncFails(f, next(2) == 0)
				case next(3) == 0:
					d.SyncDirFails(dir)
				default:
					err = d.Remove(dir, name)
				}
				require.NoError(t, err)
				for _, name := range names {
					path := "data/" + name
					_, f, err := d.Lookup(dir, name)
					if err != nil {
						back := false
						for img := range d.Crashes(0) {
							_, _, err := img.Lookup(img.Root(), path)
							back = back || err == nil
						}
						require.Equal(t, back, d.MayReturn(path), "%s", fmt.Sprint(seed))
						continue
					}
					info, _, _ := d.Lookup(dir, name)
					seen := make([]byte, info.Size)
					_, _ = d.ReadAt(f, seen, 0)
					lost := d.AtStake(path, 0, -1)
					differs := func(img *Disk) bool {
						got, ok := img.DurableFile(path)
						return !ok || len(got) < len(seen) || string(got[:len(seen)]) != string(seen)
					}
					if lost == "" {
						safe++
						for img := range d.Crashes(0) {
							require.False(t, differs(img), "seed %d: %s was said to be safe", seed, path)
						}
					} else {
						risky++
					}
				}
			}
		}
		require.Greater(t, safe, 100)
		require.Greater(t, risky, 100)
	}
}
