package disk

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// Several users at once, with clones and enumerations taken meanwhile. Meant for -race.
func TestConcurrentUse(t *testing.T) {
	d := New(Adversarial)
	dir := openRoot(t, d)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("f%d", i)
			for k := range 50 {
				data := fmt.Sprintf("%d %d", i, k)
				if err := vfs.ReplaceFile(dir, name, []byte(data)); err != nil {
					t.Error(err)
				}
				b, err := vfs.ReadFile(dir, name, 100)
				if err != nil || string(b) != data {
					t.Error(string(b), err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 20 {
				img := d.Clone()
				img.PowerLoss(newPCG(1))
				for img := range d.Crashes(10) {
					img.Hash()
					run(t, img, "create x", "write x AB", "sync x")
				}
			}
		})
	}
	wg.Wait()
	requireSound(t, d)
	require.Equal(t, d.Hash(), d.DurableHash())
}
