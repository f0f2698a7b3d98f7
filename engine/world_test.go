package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim"
)

// lab is a simulated machine on which a test opens engines, in virtual time.
type lab struct {
	t      *testing.T
	w      *sim.World
	m      *sim.Machine
	events []Event
	engine *Engine
	proc   *sim.Process
}

// inWorld runs story as a task of a world without random faults and fails the test when the world fails.
func inWorld(t *testing.T, story func(l *lab)) {
	inWorldWith(t, sim.MachineConfig{}, story)
}

func inWorldWith(t *testing.T, config sim.MachineConfig, story func(l *lab)) {
	t.Helper()
	if config.Latency == (sim.Latency{}) {
		config.Latency = sim.DefaultLatency()
		config.Latency.Stalls = 0
	}
	w := sim.New(sim.Options{Seed: 1})
	l := &lab{t: t, w: w}
	l.m = w.Machine("n1", config)
	w.Go("story", func() {
		story(l)
		w.Stop()
	})
	require.NoError(t, w.Run(time.Hour))
}

// boot opens the engine in a new process.
func (l *lab) boot(o Options) error {
	var err error
	opened := l.w.Env().NewEvent()
	l.proc = l.m.Boot(func(e *env.Env) {
		o.Env = e
		o.Listener = func(v Event) { l.events = append(l.events, v) }
		l.engine, err = Open("data", o)
		opened.Set()
	})
	if !opened.WaitUntil(l.w.Now().Add(time.Minute)) {
		return fmt.Errorf("the process died or hung while opening")
	}
	return err
}

func (l *lab) mustBoot() {
	l.t.Helper()
	require.NoError(l.t, l.boot(Options{}))
}

// call runs fn in the process and requires that it returns.
func (l *lab) call(fn func(e *Engine)) {
	l.t.Helper()
	require.Equal(l.t, sim.Done, l.proc.Call("call", env.Forever, func() { fn(l.engine) }))
}

// start runs fn in the process without waiting for it; the returned function waits.
func (l *lab) start(fn func(e *Engine)) (wait func()) {
	done := l.w.Env().NewEvent()
	l.w.Go("client", func() {
		l.proc.Call("call", env.Forever, func() { fn(l.engine) })
		done.Set()
	})
	return done.Wait
}

func (l *lab) topic(spec TopicSpec) {
	l.t.Helper()
	l.call(func(e *Engine) {
		_, err := e.CreateTopic(spec)
		require.NoError(l.t, err)
	})
}

func (l *lab) produce(topic string, payloads ...string) {
	l.t.Helper()
	l.call(func(e *Engine) {
		for _, p := range payloads {
			require.NoError(l.t, e.Produce(Message{Topic: topic, Partition: AnyPartition, Payload: []byte(p)}))
		}
	})
}

func (l *lab) consume(topic string, wait time.Duration) (d *Delivery, err error) {
	l.t.Helper()
	l.call(func(e *Engine) {
		d, err = e.Consume(&ConsumeRequest{Topic: topic, Partition: AnyPartition, Wait: wait})
	})
	return d, err
}

func (l *lab) mustConsume(topic string) *Delivery {
	l.t.Helper()
	d, err := l.consume(topic, 5*time.Second)
	require.NoError(l.t, err)
	return d
}

func (l *lab) ack(d *Delivery) (err error) {
	l.t.Helper()
	l.call(func(e *Engine) { err = e.Ack(d.Topic, d.Handle) })
	return err
}

func (l *lab) close() {
	l.t.Helper()
	l.call(func(e *Engine) { require.NoError(l.t, e.Close()) })
	l.proc.Wait()
}

func (l *lab) sleep(d time.Duration) { l.w.Env().Sleep(d) }

// count returns how many events of the type of v were seen.
func count[T Event](l *lab) (n int) {
	for _, v := range l.events {
		if _, ok := v.(T); ok {
			n++
		}
	}
	return n
}

// one is a topic with a single partition.
func one(visibility time.Duration) TopicSpec {
	return TopicSpec{Name: "t", Partitions: 1, Visibility: visibility}
}
