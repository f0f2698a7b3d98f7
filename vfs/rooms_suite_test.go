package vfs_test

import (
	"fmt"
	"strings"
	"testing"

	"narad/vfs"
	"narad/vfs/vfstest"
)

// However few directories keep their handles, the interface is kept to. Left out are the tests that rename or remove a pinned directory:
// they demand that it is found wherever it is, which is promised of one that has its handles.
func TestSuiteInLittleRoom(t *testing.T) {
	for _, room := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			vfs.SetIdleRoom(t, room)
			vfstest.Run(t, func(t *testing.T) vfs.Dir {
				if strings.Contains(t.Name(), "/pinning/") {
					t.Skip("needs the handles of a directory that moved")
				}
				return freshBelow(t)
			})
		})
	}
}

// A root never gives up its handles, and with room for two below it all of the suite passes: no test has more of them pinned while it moves
// one. One does have two, so room for one is not enough.
func TestSuiteOfARootInRoomForTwo(t *testing.T) {
	vfs.SetIdleRoom(t, 2)
	vfstest.Run(t, fresh)
}

func TestDifferentialInLittleRoom(t *testing.T) {
	for _, room := range []int{1, 3} {
		vfs.SetIdleRoom(t, room)
		for seed := range uint64(3) {
			vfstest.Differential(t, freshBelow(t), fresh(t), 500, seed)
		}
	}
}
