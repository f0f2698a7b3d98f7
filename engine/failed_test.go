package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/metastore"
	"narad/sim"
)

// A change at which the metastore failed may turn out to be made at the next start. Until then no other change takes the directory
// away that was made for it: the node would not start any more, because of a topic in the directory of another incarnation.
func TestChangesAfterTheMetastoreFailed(t *testing.T) {
	changes := map[string]func(e *Engine) error{
		"create": func(e *Engine) error { _, err := e.CreateTopic(TopicSpec{Name: "new"}); return err },
		"purge":  func(e *Engine) error { _, err := e.PurgeTopic("old"); return err },
		"delete": func(e *Engine) error { return e.DeleteTopic("old") },
	}
	for name, change := range changes {
		for nth := 1; nth <= 2; nth++ { // the sync of the entry, and that of its confirmation
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(l *lab) {
					l.mustBoot()
					l.topic(TopicSpec{Name: "old"})
					l.m.ArmFault(sim.FailEIO, sim.OpSync, "data/metastore/topics.journal", nth)
					l.call(func(e *Engine) {
						require.ErrorIs(t, change(e), metastore.ErrFailed)
						for range 3 {
							for _, again := range changes { // order-free: all are refused
								require.ErrorIs(t, again(e), metastore.ErrFailed)
							}
						}
					})
					l.m.CrashProcess()
					l.mustBoot()
					l.call(func(e *Engine) {
						_, err := e.Topic("new")
						if err != nil {
							require.ErrorIs(t, err, ErrTopicNotFound)
						}
						if err == nil {
							require.NoError(t, e.DeleteTopic("new"))
						}
						_, err = e.CreateTopic(TopicSpec{Name: "new"})
						require.NoError(t, err)
					})
				})
			})
		}
	}
}
