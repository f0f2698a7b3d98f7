package metastore_test

import (
	"testing"

	"narad/env"
	"narad/metastore"
	"narad/metastore/metastoretest"
	"narad/sim/disk"
	"narad/vfs"

	"github.com/stretchr/testify/require"
)

// TestStore is the contract of Store, on a real and on a simulated disk.
func TestStore(t *testing.T) {
	for world, fs := range map[string]func() vfs.FS{
		"os":   func() vfs.FS { return vfs.OS{} },
		"disk": func() vfs.FS { return disk.FS(disk.New(disk.Adversarial)) },
	} {
		t.Run(world, func(t *testing.T) {
			metastoretest.Run(t, func(t *testing.T) func() metastore.Store {
				path := "meta"
				if world == "os" {
					path = t.TempDir()
				}
				dir, err := fs().OpenRoot(path, true)
				require.NoError(t, err)
				t.Cleanup(func() { dir.Close() })
				return func() metastore.Store {
					s, err := metastore.OpenLocal(env.OS(), dir)
					require.NoError(t, err)
					return s
				}
			})
		})
	}
}
