package metastore_test

import (
	"testing"
	"time"

	"narad/env"
	"narad/metastore"
	"narad/metastore/metastoretest"
	"narad/sim"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	metastoretest.Run(t, func(t *testing.T) func() metastore.Store {
		q := metastore.NewQuorum()
		return func() metastore.Store { return q.Open(env.OS(), nil) }
	})
}

// TestMemoryFates: what the world decides about a change is what is answered, what the quorum has, and what a replica shows, and when.
func TestMemoryFates(t *testing.T) {
	const ms = time.Millisecond
	a := metastoretest.Topic("a", 1)
	for _, x := range []struct {
		name        string
		fate        metastore.Fate
		err         error
		shown, made [3]bool // after 0, 20 and 40 ms
	}{
		{"well", metastore.Fate{}, nil, [3]bool{true, true, true}, [3]bool{true, true, true}},
		{"slow", metastore.Fate{Takes: 9 * ms}, nil, [3]bool{true, true, true}, [3]bool{true, true, true}},
		{"no leader", metastore.Fate{NoLeader: true, Lost: true, Applied: true}, metastore.ErrNoLeader, [3]bool{}, [3]bool{}},
		{"lost", metastore.Fate{Lost: true}, metastore.ErrUncertain, [3]bool{}, [3]bool{}},
		{"made late", metastore.Fate{Lost: true, Applied: true, After: 30 * ms}, metastore.ErrUncertain, [3]bool{false, false, true}, [3]bool{false, false, true}},
		{"shown late", metastore.Fate{Lost: true, Applied: true, After: 10 * ms, Lag: 20 * ms}, metastore.ErrUncertain, [3]bool{false, false, true}, [3]bool{false, true, true}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := sim.New(sim.Options{Seed: 1})
			w.Go("test", func() {
				e := w.Env()
				q := metastore.NewQuorum()
				m := q.Open(e, func() metastore.Fate { return x.fate })
				require.ErrorIs(t, m.Create(a), x.err)
				for i := range 3 {
					_, shown := m.Get("a")
					require.Equal(t, x.shown[i], shown, "shown at %d", i)
					made := q.Open(e, nil)
					_, found := made.Get("a")
					require.Equal(t, x.made[i], found, "made at %d", i)
					e.Sleep(20 * ms)
				}
				w.Stop()
			})
			require.NoError(t, w.Run(time.Minute))
		})
	}
}
