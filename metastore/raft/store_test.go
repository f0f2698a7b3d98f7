package raft

import (
	"testing"

	"narad/metastore"
	"narad/metastore/metastoretest"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	metastoretest.Run(t, func(t *testing.T) func() metastore.Store {
		dir := t.TempDir()
		return func() metastore.Store {
			s, err := Open(dir, Config{})
			require.NoError(t, err)
			return s
		}
	})
}
