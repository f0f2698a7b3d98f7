package sim

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

// counter is a grow-only counter replicated over three machines: each keeps the highest count it has heard
// of from each, gossips all of them, and stores its own durably before it tells anybody.
type counter struct {
	e      *env.Env
	name   string
	peers  []string
	counts map[string]uint64
	acked  uint64 // own increments that some client got an answer for
}

func (c *counter) serve(ready *env.Event) {
	d, err := c.e.FS().OpenRoot("/counter", true)
	if err != nil {
		panic(err)
	}
	if b, err := vfs.ReadFile(d, "own", 8); err == nil {
		c.counts[c.name] = binary.LittleEndian.Uint64(b)
	}
	c.e.Go("gossip", func() {
		for {
			c.e.Sleep(50 * time.Millisecond)
			for _, peer := range c.peers {
				for _, of := range append(c.peers, c.name) {
					c.e.Send(peer, fmt.Appendf(nil, "%s=%d", of, c.counts[of]))
				}
			}
		}
	})
	ready.Set()
	for {
		m, _ := c.e.Receive(env.Forever)
		var of string
		var n uint64
		fmt.Sscanf(string(m.Payload), "%1s=%d", &of, &n)
		c.counts[of] = max(c.counts[of], n)
	}
}

func (c *counter) increment() {
	d, err := c.e.FS().OpenRoot("/counter", false)
	if err != nil {
		return
	}
	next := c.counts[c.name] + 1
	if vfs.ReplaceFile(d, "own", binary.LittleEndian.AppendUint64(nil, next)) == nil {
		c.counts[c.name] = next
	}
}

// TestReplicatedCounter loses, doubles, reorders and cuts messages between three machines that crash, then
// heals everything: all must agree on a sum between what was acknowledged and what was tried.
func TestReplicatedCounter(t *testing.T) {
	var total Stats
	for seed := range uint64(30) {
		w := New(Options{Seed: seed, Policy: Policy{Kind: Swarm}})
		w.Net().Configure(NetConfig{
			Delay: Range{time.Millisecond, 100 * time.Millisecond},
			Loss:  200_000, Duplicate: 100_000, Reorder: 300_000, Slow: 10_000, SlowBy: Range{time.Second, 5 * time.Second},
		})
		names := []string{"a", "b", "c"}
		nodes := map[string]*counter{}
		acked, tried := map[string]uint64{}, map[string]uint64{}
		healed := false
		for i, name := range names {
			m := w.Machine(name, MachineConfig{RatePPM: 100 * i})
			boot := func(e *env.Env, ready *env.Event) {
				c := &counter{e: e, name: name, peers: append(append([]string{}, names[:i]...), names[i+1:]...), counts: map[string]uint64{}}
				nodes[name] = c
				c.serve(ready)
			}
			w.Go("supervise "+name, func() {
				for {
					ready := w.Env().NewEvent()
					m.Boot(func(e *env.Env) {
						inside := e.NewEvent()
						e.Go("tell", func() { inside.Wait(); ready.Set() })
						boot(e, inside)
					}).Wait()
				}
			})
			w.Go("client of "+name, func() {
				for !healed {
					w.Env().Sleep(w.Duration(time.Millisecond, time.Second))
					p := m.Process()
					if p == nil || !p.Alive() || nodes[name] == nil {
						continue
					}
					c := nodes[name]
					before := c.counts[name]
					tried[name]++
					if p.Call("increment", w.Now().Add(time.Second), c.increment) == Done && c.counts[name] > before {
						acked[name]++
					}
				}
			})
		}
		w.Go("nemesis", func() {
			for range 15 {
				w.Env().Sleep(w.Duration(0, time.Second))
				x, y := w.machines[w.Choose(3)], w.machines[w.Choose(3)]
				switch w.Choose(5) {
				case 0:
					w.Net().Partition(x.name, y.name)
				case 1:
					w.Net().Isolate(x.name)
				case 2:
					x.CrashProcess()
				case 3:
					x.PowerLoss()
				case 4:
					w.Net().Heal()
				}
			}
			w.Net().Heal()
			w.Net().Configure(NetConfig{Delay: Range{time.Millisecond, 2 * time.Millisecond}})
			healed = true
			w.Env().Sleep(10 * time.Second)
			for _, of := range names {
				for _, at := range names {
					got, want := nodes[at].counts[of], nodes[of].counts[of]
					if got != want {
						w.Fail(fmt.Errorf("%s thinks %s counted %d, not %d", at, of, got, want))
					}
					if got < acked[of] || got > tried[of] {
						w.Fail(fmt.Errorf("%s counted %d, %d acknowledged, %d tried", of, got, acked[of], tried[of]))
					}
				}
			}
			w.Stop()
		})
		require.NoError(t, w.Run(time.Hour), "seed %d", seed)
		s := w.Stats()
		total.Sent += s.Sent
		total.Delivered += s.Delivered
		total.Lost += s.Lost
		total.Duplicated += s.Duplicated
		total.Reordered += s.Reordered
		total.Cut += s.Cut
		total.ProcessCrashes += s.ProcessCrashes
		total.PowerLosses += s.PowerLosses
	}
	require.InDelta(t, 0.15, float64(total.Lost)/float64(total.Sent), 0.1)
	require.Positive(t, total.Duplicated)
	require.Positive(t, total.Reordered)
	require.Positive(t, total.Cut)
	require.Positive(t, total.ProcessCrashes)
	require.Positive(t, total.PowerLosses)
}

// receiver collects all that arrives at a machine.
func receiver(got *[]string) func(e *env.Env) {
	return func(e *env.Env) {
		for {
			if m, ok := e.Receive(env.Forever); ok {
				*got = append(*got, m.From+":"+string(m.Payload))
			}
		}
	}
}

func TestMessagesKeepTheOrderOfTheirLinkUnlessReordered(t *testing.T) {
	for _, reorder := range []int{0, 500_000} {
		inversions := 0
		run(t, Options{Seed: 4}, func(w *World) {
			w.Net().Configure(NetConfig{Delay: Range{time.Millisecond, time.Second}, Reorder: reorder})
			var got []string
			w.Machine("b", MachineConfig{}).Boot(receiver(&got))
			for i := range 200 {
				w.Env().Send("b", fmt.Appendf(nil, "%03d", i))
			}
			w.Env().Sleep(time.Minute)
			require.Len(t, got, 200)
			for i := 1; i < len(got); i++ {
				if got[i] < got[i-1] {
					inversions++
				}
			}
		})
		if reorder == 0 {
			require.Zero(t, inversions)
		} else {
			require.Greater(t, inversions, 20)
		}
	}
}

func TestPartitionsAreOneWay(t *testing.T) {
	run(t, Options{}, func(w *World) {
		var atA, atB []string
		a, b := w.Machine("a", MachineConfig{}), w.Machine("b", MachineConfig{})
		a.Boot(receiver(&atA))
		b.Boot(receiver(&atB))
		exchange := func() {
			a.Process().Call("send", env.Forever, func() { a.Process().Env().Send("b", []byte("x")) })
			b.Process().Call("send", env.Forever, func() { b.Process().Env().Send("a", []byte("y")) })
		}
		w.Net().Partition("a", "b")
		require.True(t, w.Net().Cut("a", "b"))
		require.False(t, w.Net().Cut("b", "a"))
		exchange()
		w.Env().Sleep(time.Second)
		require.Empty(t, atB)
		require.Equal(t, []string{"b:y"}, atA)

		w.Net().Partition("a", "b")
		exchange()
		w.Net().Heal()
		w.Env().Sleep(time.Second)
		require.Empty(t, atB, "what was sent into a partition is lost even when it heals before the arrival")
		require.Len(t, atA, 2)

		exchange()
		w.Net().Isolate("b") // what is under way is lost
		w.Env().Sleep(time.Second)
		require.Empty(t, atB)
		require.Len(t, atA, 2)

		w.Net().Heal()
		exchange()
		w.Env().Sleep(time.Second)
		require.Equal(t, []string{"a:x"}, atB)
		require.Len(t, atA, 3)
	})
}

func TestReceive(t *testing.T) {
	run(t, Options{Seed: 2}, func(w *World) {
		m := w.Machine("m", MachineConfig{RatePPM: -300})
		got := 0
		p := m.Boot(func(e *env.Env) {
			start := e.Now()
			_, ok := e.Receive(start.Add(time.Second))
			require.False(t, ok)
			require.GreaterOrEqual(t, e.Now(), start.Add(time.Second))
			for range 4 {
				e.Go("taker", func() {
					if _, ok := e.Receive(e.Now().Add(time.Minute)); ok {
						got++
					}
				})
			}
		})
		w.Env().Sleep(2 * time.Second)
		for range 3 {
			w.Env().Send("m", nil)
		}
		p.Wait()
		require.Equal(t, 3, got)

		payload := []byte("before")
		w.Env().Send("m", payload)
		copy(payload, "after!")
		var kept []string
		m.Boot(receiver(&kept))
		w.Env().Sleep(time.Second)
		require.Equal(t, []string{"world:before"}, kept, "the network copies, and delivers to whoever runs there then")

		// The outer world is a node, too.
		m.Process().Call("reply", env.Forever, func() { m.Process().Env().Send("world", []byte("hi")) })
		reply, ok := w.Env().Receive(w.Now().Add(time.Second))
		require.True(t, ok)
		require.Equal(t, env.Message{From: "m", Payload: []byte("hi")}, reply)
	})
}

func TestAReceiverThatLeavesAtTheInstantOfAMessageStrandsNone(t *testing.T) {
	left := 0
	for seed := range uint64(200) {
		run(t, Options{Seed: seed}, func(w *World) {
			w.Net().Configure(NetConfig{Delay: Range{time.Second - 1, time.Second - 1}})
			got := ""
			m := w.Machine("m", MachineConfig{})
			m.Boot(func(e *env.Env) {
				arrival := e.Now().Add(time.Second)
				e.Go("leaver", func() {
					if _, ok := e.Receive(arrival); ok {
						got += "leaver"
					}
				})
				e.Sleep(time.Millisecond)
				if _, ok := e.Receive(env.Forever); ok {
					got += "stayer"
				}
				forever(e)
			})
			w.Env().Sleep(1)
			w.Env().Send("m", nil) // after the leaver began to wait, so its time is up first
			w.Env().Sleep(time.Minute)
			require.Contains(t, []string{"leaver", "stayer"}, got)
			if got == "stayer" {
				left++
			}
		})
	}
	require.Positive(t, left)
	require.Less(t, left, 200)
}

func TestMessageToNobodyIsAMistake(t *testing.T) {
	w := New(Options{})
	w.Go("sender", func() { w.Env().Send("nobody", nil) })
	var p *PanicError
	require.ErrorAs(t, w.Run(time.Hour), &p)
}
