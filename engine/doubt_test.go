package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/metastore"
)

// replicated boots an engine on a replica of a quorum.
func (l *lab) replicated(q *metastore.Quorum, fate func() metastore.Fate) {
	l.t.Helper()
	var err error
	opened := l.w.Env().NewEvent()
	l.proc = l.m.Boot(func(e *env.Env) {
		l.engine, err = Open("data", Options{Env: e, Metastore: q.Open(e, fate), Listener: func(v Event) { l.events = append(l.events, v) }})
		opened.Set()
	})
	require.True(l.t, opened.WaitUntil(l.w.Now().Add(time.Minute)))
	require.NoError(l.t, err)
}

// TestDoubt: a change of which the outcome is not known is found made or not, by the next change or in the background, and the engine
// then is what the metastore says, before and after a restart. Messages that are not part of it stay.
func TestDoubt(t *testing.T) {
	const ms = time.Millisecond
	four := 4
	changes := map[string]func(e *Engine) error{
		"create": func(e *Engine) error { _, err := e.CreateTopic(TopicSpec{Name: "new"}); return err },
		"delete": func(e *Engine) error { return e.DeleteTopic("t") },
		"purge":  func(e *Engine) error { _, err := e.PurgeTopic("t"); return err },
		"alter":  func(e *Engine) error { _, err := e.AlterTopic("t", TopicPatch{Partitions: &four}); return err },
	}
	fates := map[string]metastore.Fate{
		"made":        {Lost: true, Applied: true},
		"not made":    {Lost: true},
		"made late":   {Lost: true, Applied: true, After: 20 * ms},
		"shown late":  {Lost: true, Applied: true, Lag: 20 * ms},
		"no leader":   {NoLeader: true},
		"nothing bad": {},
	}
	for kind, change := range changes {
		for outcome, fate := range fates {
			for _, then := range []string{"wait", "again", "crash"} {
				t.Run(fmt.Sprintf("%s %s %s", kind, outcome, then), func(t *testing.T) {
					inWorld(t, func(l *lab) {
						q := metastore.NewQuorum()
						fates := []metastore.Fate{{}, {}, fate, {NoLeader: true}, {NoLeader: true}} // the leader is away for a while
						next := func() (f metastore.Fate) {
							if len(fates) > 0 {
								f, fates = fates[0], fates[1:]
							}
							return f
						}
						l.replicated(q, next)
						l.topic(one(time.Second))
						l.topic(TopicSpec{Name: "other"})
						l.produce("t", "old")
						l.produce("other", "stays")
						var err error
						l.call(func(e *Engine) { err = change(e) })
						switch {
						case fate.Lost:
							require.ErrorIs(t, err, metastore.ErrUncertain)
						case fate.NoLeader:
							require.ErrorIs(t, err, metastore.ErrNoLeader)
						default:
							require.NoError(t, err)
						}
						switch then {
						case "wait":
							l.sleep(5 * time.Second)
						case "again":
							for err = metastore.ErrNoLeader; err != nil && isLeaderless(err); {
								l.sleep(ms)
								l.call(func(e *Engine) { err = change(e) })
							}
							if err != nil {
								require.True(t, kind == "create" || kind == "delete", "%v", err)
								require.Contains(t, []error{ErrTopicExists, ErrTopicNotFound}, rootOf(err))
							}
						case "crash":
							l.sleep(30 * ms)
							l.m.CrashProcess()
							fates = nil
							l.replicated(q, next)
						}
						l.isAs(q)
						l.m.CrashProcess()
						l.replicated(q, nil)
						l.isAs(q)
						for string(l.mustConsume("other").Payload) != "stays" { // a probe may come first, from another partition
						}
					})
				})
			}
		}
	}
}

func isLeaderless(err error) bool {
	return rootOf(err) == metastore.ErrNoLeader
}

// rootOf returns the sentinel that an error is about.
func rootOf(err error) error {
	for _, known := range []error{metastore.ErrNoLeader, ErrTopicExists, ErrTopicNotFound} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// isAs requires that the engine serves the topics that the quorum has, and no others.
func (l *lab) isAs(q *metastore.Quorum) {
	l.t.Helper()
	var truth, served []Topic
	l.call(func(e *Engine) {
		for _, now := range q.Open(e.env, nil).List("", 0) {
			truth = append(truth, now)
			got, err := e.Topic(now.Name)
			require.NoError(l.t, err)
			require.Equal(l.t, now, got)
			require.NoError(l.t, e.Produce(Message{Topic: now.Name, Partition: now.Partitions - 1, Payload: []byte("probe")}))
		}
		for _, t := range e.allTopics() {
			served = append(served, t.view())
		}
	})
	require.Equal(l.t, truth, served)
	for _, now := range truth {
		if now.Name == "other" {
			continue
		}
		for { // what is there is delivered, the probe at last
			d := l.mustConsume(now.Name)
			require.NoError(l.t, l.ack(d))
			if string(d.Payload) == "probe" {
				break
			}
		}
	}
}
