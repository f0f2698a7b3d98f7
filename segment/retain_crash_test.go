package segment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
)

// RET-04, LOG-07: where the bounds cannot be written, on a full disk, they do not say any more which segments are gone. Then it is the
// order of the removals alone that keeps what is left without a hole, whatever a power loss leaves.
func TestRetainOnAFullDiskCrash(t *testing.T) {
	for _, p := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		c := newChecker(t, 8)
		s := c.story(disk.New(p))
		s.program("big", "big", "big", "1")
		s.states = nil
		s.fault = func(op disk.Op) error {
			if op.Kind == disk.OpWrite && strings.HasSuffix(op.Path, BoundsFile) {
				return errDisk
			}
			return nil
		}
		s.keep = true
		require.NoError(t, s.retain(3), "retention works on a full disk too")
		s.mark("after the removals")
		require.GreaterOrEqual(t, s.state.removed, 2, "several segments went at once")
		for _, st := range s.states {
			c.crash(st, 0)
		}
		require.Greater(t, c.looked, len(s.states))
	}
}
