package sim

import (
	"fmt"
	"time"

	"narad/env"
)

// NetConfig describes how messages travel. Rates are in millionths of the messages.
type NetConfig struct {
	Delay     Range // of a message
	Loss      int   // ppm that never arrive
	Duplicate int   // ppm that arrive twice, each with its own delay
	Reorder   int   // ppm that may overtake earlier ones of their link; the others wait for those
	Slow      int   // ppm that take SlowBy longer
	SlowBy    Range
}

// defaultNet is a healthy local network.
var defaultNet = NetConfig{Delay: Range{50 * time.Microsecond, 2 * time.Millisecond}}

// Network carries messages between processes by the names of their machines; the outer world is "world".
// A message goes to the process that runs on the machine when it arrives.
type Network struct {
	w      *World
	config NetConfig
	nodes  map[string]*Process // by machine; nil before its first boot
	links  map[link]*linkState
}

type link struct{ from, to string }

type linkState struct {
	cut  bool
	last int64 // arrival of the latest message that keeps the order
}

type message struct {
	timer timer
	from  string
	to    string
	body  []byte
}

// inbox holds what a process has not received yet.
type inbox struct {
	messages []env.Message
	takers   []*env.Waiter
}

func (n *Network) init(w *World) {
	*n = Network{w: w, config: defaultNet, nodes: map[string]*Process{}, links: map[link]*linkState{}}
}

// join makes p the process that receives what is sent to its machine.
func (n *Network) join(p *Process) { n.nodes[p.name] = p }

// Configure changes how messages travel from now on.
func (n *Network) Configure(c NetConfig) { n.config = c }

// Config returns how messages travel.
func (n *Network) Config() NetConfig { return n.config }

// Partition cuts the way from one machine to another, not the way back. Messages under way are lost, too.
func (n *Network) Partition(from, to string) {
	n.link(from, to).cut = true
	n.w.stats.Partitions++
	if n.w.Logging() {
		n.w.Logf("network: cut %s -> %s", from, to)
	}
}

// Isolate cuts all ways between a machine and the others.
func (n *Network) Isolate(name string) {
	for _, m := range n.w.machines {
		if m.name != name {
			n.Partition(name, m.name)
			n.Partition(m.name, name)
		}
	}
}

// Heal mends every way.
func (n *Network) Heal() {
	for _, l := range n.links { // order-free: each is set to the same value
		l.cut = false
	}
	if n.w.Logging() {
		n.w.Logf("network: healed")
	}
}

// Cut reports whether messages from one machine to another are lost.
func (n *Network) Cut(from, to string) bool {
	l := n.links[link{from, to}]
	return l != nil && l.cut
}

func (n *Network) link(from, to string) *linkState {
	k := link{from, to}
	l := n.links[k]
	if l == nil {
		l = &linkState{}
		n.links[k] = l
	}
	return l
}

// send puts a copy of payload on its way.
func (n *Network) send(from, to string, payload []byte) {
	w := n.w
	w.stats.Sent++
	w.mix(hashString(to) ^ uint64(len(payload)))
	if _, known := n.nodes[to]; !known {
		panic(fmt.Sprintf("sim: message from %s to unknown machine %q", from, to))
	}
	l := n.link(from, to)
	if l.cut {
		w.stats.Cut++
		return
	}
	choice := w.draw(1 << 32)
	if odds(part(choice, 0), n.config.Loss) {
		w.stats.Lost++
		if w.Logging() {
			w.Logf("network: lost %s -> %s, %d bytes", from, to, len(payload))
		}
		return
	}
	body := append([]byte(nil), payload...)
	n.dispatch(l, from, to, body, choice, 1)
	if odds(part(choice, 6), n.config.Duplicate) {
		w.stats.Duplicated++
		n.dispatch(l, from, to, append([]byte(nil), payload...), choice, 7)
	}
}

// dispatch schedules the arrival of one copy, from the parts of choice that start at k.
func (n *Network) dispatch(l *linkState, from, to string, body []byte, choice uint32, k int) {
	w := n.w
	delay := n.config.Delay.at(part(choice, k))
	if odds(part(choice, k+1), n.config.Slow) {
		delay += n.config.SlowBy.at(part(choice, k+2))
	}
	at := w.now + max(1, int64(delay))
	if odds(part(choice, k+3), n.config.Reorder) {
		if at < l.last {
			w.stats.Reordered++
		}
	} else {
		at = max(at, l.last)
		l.last = at
	}
	msg := &message{from: from, to: to, body: body}
	msg.timer = timer{kind: timerMessage, msg: msg}
	w.timers.arm(&msg.timer, at)
}

// deliver hands a message over to the process that runs at its destination now.
func (n *Network) deliver(msg *message) {
	w := n.w
	p := n.nodes[msg.to]
	if p == nil || p.dead || n.Cut(msg.from, msg.to) {
		w.stats.Cut++
		return
	}
	w.stats.Delivered++
	w.mix(uint64(w.now) ^ uint64(len(msg.body)))
	p.inbox.messages = append(p.inbox.messages, env.Message{From: msg.from, Payload: msg.body})
	p.inbox.wake(w)
}

func (b *inbox) wake(w *World) {
	if len(b.takers) > 0 && len(b.messages) > 0 {
		taker := b.takers[0]
		b.takers = b.takers[1:]
		w.unpark(taker)
	}
}

// receive takes the first message to p, waiting until the clock of p shows until.
func (n *Network) receive(p *Process, until env.Instant) (env.Message, bool) {
	w, b := n.w, &p.inbox
	t := w.self("Receive")
	for len(b.messages) == 0 {
		if p.dead {
			return env.Message{}, false
		}
		taker := &t.own
		taker.Init(p.env)
		b.takers = append(b.takers, taker)
		if !w.park(p, taker, until, "receive") {
			b.leave(taker)
			if len(b.messages) == 0 || w.Choose(2) == 1 {
				b.wake(w) // the wake-up that this taker leaves behind must not strand the message
				return env.Message{}, false
			}
		}
	}
	m := b.messages[0]
	b.messages[0] = env.Message{}
	b.messages = b.messages[1:]
	return m, true
}

func (b *inbox) leave(taker *env.Waiter) {
	for i := range b.takers {
		if b.takers[i] == taker {
			b.takers = append(b.takers[:i], b.takers[i+1:]...)
			return
		}
	}
}
