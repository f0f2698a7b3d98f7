package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/client"
)

// Shape of the kill test's load.
const (
	killTopic      = "orders"
	killVisibility = 1500 * time.Millisecond
	killProducers  = 3
	killConsumers  = 5
	killBacklog    = 2000 // messages produced and not acknowledged, above which producers pause
	// killUndone is how old an ack may be at the kill that undoes it: a tick of 100 ms, and 2 s for a machine that is busy.
	killUndone = 2100 * time.Millisecond
)

// A real server process is loaded over HTTP and killed with SIGKILL again and again, sometimes while it recovers from
// the last time; then the queue is drained and all that the clients saw is judged. After SIGKILL everything written is still
// in the page cache; what a power loss takes is the simulator's subject.
//
// NARAD_KILLS sets the number of kills (default 5):
//
//	NARAD_KILLS=50 go test ./cmd/narad -run Kill -count=1 -v
//
// FAIL-10, FAIL-12, FAIL-37, DEL-01, DEL-06, DEL-07, DEL-17, REC-05, REC-07, API-04; see history.check for the invariants.
func TestKill(t *testing.T) {
	kills := 5
	if text := os.Getenv("NARAD_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	_, err := binary() // not part of the first start
	require.NoError(t, err)
	k := &killTest{t: t, dir: t.TempDir(), started: time.Now(), payloads: map[string]int{}}
	k.boot()
	_, err = k.now().client.CreateTopic(t.Context(), client.TopicSpec{Name: killTopic, VisibilityMs: killVisibility.Milliseconds()})
	require.NoError(t, err)
	k.load()
	for n := range kills {
		k.killOnce(n)
	}
	k.quiesce()
	k.drain()
	k.stopAndLook()
	k.report(kills)
}

// life is one server process as its clients see it.
type life struct {
	number  int
	process *process
	client  *client.Client
}

// killTest is one run of the test. Clients append what they saw under mu.
type killTest struct {
	t       *testing.T
	dir     string
	started time.Time
	current atomic.Pointer[life]
	halt    atomic.Bool // producers and consumers shall end
	clients sync.WaitGroup
	backlog atomic.Int64

	mu       sync.Mutex // guards the fields below
	history  history
	payloads map[string]int // message by payload
	keys     []string       // by message
	strays   []string       // deliveries of what nobody produced
	statuses map[string]int // answers that no client should get

	inRecovery int // kills before the server served
	boots      []time.Duration
	ports      map[string]bool
}

func (k *killTest) now() *life { return k.current.Load() }

func (k *killTest) clock() time.Duration { return time.Since(k.started) }

// boot starts a server and makes it the current one.
func (k *killTest) boot() {
	k.t.Helper()
	begin := time.Now()
	p := start(k.t, k.dir).serving()
	k.boots = append(k.boots, time.Since(begin))
	if k.ports == nil {
		k.ports = map[string]bool{}
	}
	require.False(k.t, k.ports[p.addr], "the kernel gave %s out again: lives cannot be told apart, run the test again", p.addr)
	k.ports[p.addr] = true
	number := 0
	if l := k.now(); l != nil {
		number = l.number + 1
	}
	k.current.Store(&life{number, p, p.client()})
}

// die records the end of the current life before it happens.
func (k *killTest) die(graceful bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.history.deaths = append(k.history.deaths, death{k.clock(), graceful})
}

// killOnce lets the load run, kills the server and starts another one. Most lives are short; some are so long that an
// ack which is undone although it is old would show.
func (k *killTest) killOnce(n int) {
	k.t.Helper()
	run := 100*time.Millisecond + rand.N(900*time.Millisecond)
	if n%4 == 2 {
		run = killUndone + 500*time.Millisecond + rand.N(time.Second)
	}
	time.Sleep(run)
	p := k.now().process
	k.die(false)
	p.kill()
	require.Empty(k.t, p.errorLines(), "life %d", k.now().number)
	for rand.N(3) == 0 { // the recovery is killed as well
		p := start(k.t, k.dir)
		time.Sleep(rand.N(40 * time.Millisecond))
		p.kill()
		k.inRecovery++
	}
	k.boot()
}

// load starts the clients.
func (k *killTest) load() {
	for i := range killProducers {
		k.clients.Go(func() { k.produceLoop(rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))) })
	}
	for range killConsumers {
		k.clients.Go(k.consumeLoop)
	}
}

// quiesce ends the clients.
func (k *killTest) quiesce() {
	k.halt.Store(true)
	k.clients.Wait()
}

func (k *killTest) produceLoop(rng *rand.Rand) {
	for !k.halt.Load() {
		if k.backlog.Load() > killBacklog {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		k.produceOne(rng)
		time.Sleep(rand.N(3 * time.Millisecond))
	}
}

func (k *killTest) produceOne(rng *rand.Rand) {
	m, number := k.newMessage(rng)
	err := k.now().client.Produce(k.t.Context(), m)
	result := unknown
	var e *client.Error
	switch {
	case err == nil:
		result = ok
		k.backlog.Add(1)
	case errors.As(err, &e) && e.Unsent:
		result = refused
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.history.produced = append(k.history.produced, produceOp{number, result})
	k.noteStatus("produce", err)
}

// newMessage makes a message that there never was, of any of the three codings and of many sizes.
func (k *killTest) newMessage(rng *rand.Rand) (client.Outgoing, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	number := len(k.keys)
	pad := make([]byte, rng.IntN(400))
	if rng.IntN(200) == 0 {
		pad = make([]byte, rng.IntN(200_000))
	}
	for i := range pad {
		pad[i] = byte(rng.Uint32())
	}
	m := client.Outgoing{Topic: killTopic}
	switch text := base64.StdEncoding.EncodeToString(pad); number % 3 {
	case 0:
		m.Payload = fmt.Appendf(nil, `{"message": %d,  "pad":"%s"}`, number, text)
	case 1:
		m.Payload = fmt.Appendf(nil, "message %d <%s>\n", number, text)
	default:
		m.Payload = append(fmt.Appendf(nil, "\xff%d\x00", number), pad...)
	}
	switch rng.IntN(4) {
	case 0:
		m.Key = fmt.Appendf(nil, "key %d", rng.IntN(50))
	case 1:
		m.Partition = new(rng.IntN(3))
	}
	k.payloads[string(m.Payload)] = number
	k.keys = append(k.keys, string(m.Key))
	return m, number
}

// noteStatus counts answers that are errors by status; those of a dying server have none.
func (k *killTest) noteStatus(what string, err error) {
	var e *client.Error
	if errors.As(err, &e) && e.Status != 0 && e.Status != 410 {
		if k.statuses == nil {
			k.statuses = map[string]int{}
		}
		k.statuses[fmt.Sprintf("%s: %v", what, err)]++
	}
}

// holding is a lease whose consumer takes its time.
type holding struct {
	delivery delivery
	until    time.Duration
}

// consumeLoop is one consumer. It acknowledges most messages at once; others it gives back, forgets, holds on to (past
// the lease, or past the life of the server), extends, or acknowledges twice.
func (k *killTest) consumeLoop() {
	var held []holding
	for !k.halt.Load() {
		for len(held) > 0 && (held[0].until < k.clock() || held[0].delivery.life != k.now().number) {
			k.settle(held[0].delivery, ack)
			held = held[1:]
		}
		wait, ctx, cancel := 500*time.Millisecond, k.t.Context(), context.CancelFunc(func() {})
		if rand.N(30) == 0 { // leaves while it waits, or at the moment of delivery
			ctx, cancel = context.WithTimeout(ctx, rand.N(30*time.Millisecond))
		}
		d, got := k.consumeOne(ctx, wait)
		cancel()
		if !got {
			continue
		}
		switch n := rand.N(100); {
		case n < 8:
			k.settle(d, nack)
		case n < 14: // forgotten
		case n < 22:
			held = append(held, holding{d, k.clock() + rand.N(2*killVisibility)})
		case n < 30:
			k.settle(d, extend)
			time.Sleep(rand.N(20 * time.Millisecond))
			k.settle(d, ack)
		case n < 34:
			k.settle(d, ack)
			k.settle(d, verb(rand.N(3)))
		default:
			k.settle(d, ack)
		}
	}
	for _, h := range held {
		k.settle(h.delivery, ack)
	}
}

// consumeOne asks the current server for a message.
func (k *killTest) consumeOne(ctx context.Context, wait time.Duration) (delivery, bool) {
	l := k.now()
	call := k.clock()
	m, err := l.client.Consume(ctx, killTopic, client.ConsumeOptions{Wait: wait})
	ret := k.clock()
	if err != nil {
		k.mu.Lock()
		k.noteStatus("consume", err)
		k.mu.Unlock()
		if !errors.Is(err, client.ErrEmpty) {
			time.Sleep(2 * time.Millisecond) // nobody answers for the moment
		}
		return delivery{}, false
	}
	d := delivery{copyID{m.Partition, m.Offset}, m.Handle, -1, l.number, call, ret}
	k.mu.Lock()
	defer k.mu.Unlock()
	number, known := k.payloads[string(m.Payload)]
	switch {
	case !known:
		k.strays = append(k.strays, fmt.Sprintf("%v: nobody produced %.200q", d.copy, m.Payload))
		return delivery{}, false
	case k.keys[number] != string(m.Key):
		k.strays = append(k.strays, fmt.Sprintf("%v: message %d has key %q, was produced with %q", d.copy, number, m.Key, k.keys[number]))
	case m.Topic != killTopic || !strings.HasPrefix(m.Handle, fmt.Sprintf("%d:%d:", m.Partition, m.Offset)):
		k.strays = append(k.strays, fmt.Sprintf("%v: topic %q, handle %q", d.copy, m.Topic, m.Handle))
	}
	d.message = number
	k.history.deliveries = append(k.history.deliveries, d)
	return d, true
}

// settle acknowledges, gives back or extends at the current server, whichever process gave the handle out.
func (k *killTest) settle(d delivery, what verb) outcome {
	l := k.now()
	do := [...]func(context.Context, string, string) error{ack: l.client.Ack, nack: l.client.Nack, extend: l.client.Extend}[what]
	call := k.clock()
	err := do(k.t.Context(), killTopic, d.handle)
	s := settleOp{d.copy, d.handle, what, l.number, call, k.clock(), unknown}
	var e *client.Error
	switch {
	case err == nil:
		s.outcome = ok
		if what == ack {
			k.backlog.Add(-1)
		}
	case errors.Is(err, client.ErrLeaseLost), errors.As(err, &e) && e.Unsent:
		s.outcome = refused
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.outcome == refused && e != nil && e.Unsent {
		return refused // nothing was asked of anybody
	}
	k.history.settled = append(k.history.settled, s)
	k.noteStatus("settle", err)
	return s.outcome
}

// drain consumes until nothing comes for longer than any lease can last, and every message with a 202 was acknowledged.
func (k *killTest) drain() {
	k.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var drainers sync.WaitGroup
		for range killConsumers {
			drainers.Go(func() {
				for quiet := time.Now(); time.Since(quiet) < killVisibility+2*time.Second; {
					if d, got := k.consumeOne(k.t.Context(), killVisibility+2*time.Second); got {
						k.settle(d, ack)
						quiet = time.Now()
					}
				}
			})
		}
		drainers.Wait()
		missing := k.missing()
		if missing == 0 || time.Now().After(deadline) {
			return
		}
		k.t.Logf("%d messages are still missing; going on", missing)
	}
}

// missing counts the messages with a 202 of which no copy was acknowledged, for all that is known.
func (k *killTest) missing() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	byHandle := map[string]int{}
	for _, d := range k.history.deliveries {
		byHandle[d.handle] = d.message
	}
	acked := map[int]bool{}
	for _, s := range k.history.settled {
		if s.verb == ack && s.outcome != refused {
			acked[byHandle[s.handle]] = true
		}
	}
	for _, p := range k.history.produced {
		if p.outcome == ok && !acked[p.message] {
			n++
		}
	}
	return n
}

// stopAndLook stops the last server gracefully and starts another: nothing may be left to consume (REC-07).
func (k *killTest) stopAndLook() {
	k.t.Helper()
	p := k.now().process
	k.die(true)
	p.signal(syscall.SIGTERM)
	require.Equal(k.t, exitOK, p.exit(), p.log())
	require.Empty(k.t, p.errorLines())
	k.boot()
	for {
		if _, got := k.consumeOne(k.t.Context(), time.Second); !got {
			return
		}
	}
}

func (k *killTest) report(kills int) {
	k.t.Helper()
	k.history.visibility, k.history.undoneMax = killVisibility, killUndone
	f := k.history.check()
	produced, settled := map[outcome]int{}, map[verb]map[outcome]int{ack: {}, nack: {}, extend: {}}
	for _, p := range k.history.produced {
		produced[p.outcome]++
	}
	for _, s := range k.history.settled {
		settled[s.verb][s.outcome]++
	}
	var slowest time.Duration
	for _, b := range k.boots {
		slowest = max(slowest, b)
	}
	k.t.Logf("kills: %d while serving, %d while recovering; %d starts, the slowest took %v; %v in all",
		kills, k.inRecovery, len(k.boots), slowest.Round(time.Millisecond), k.clock().Round(time.Second))
	k.t.Logf("produced: %d answered 202, %d unknown, %d never sent", produced[ok], produced[unknown], produced[refused])
	k.t.Logf("delivered: %d times, %d stored copies, %d messages from more than one copy", len(k.history.deliveries), f.copies, f.doubles)
	for v, name := range [...]string{ack: "ack", nack: "nack", extend: "extend"} {
		by := settled[verb(v)]
		k.t.Logf("%s: %d answered 204, %d answered 410, %d unknown", name, by[ok], by[refused], by[unknown])
	}
	k.t.Logf("acks undone by a kill: %d, the oldest %v before it (allowed: %v)", f.undone, f.oldest.Round(time.Microsecond), killUndone)
	k.t.Logf("violations: %d", len(f.violations)+len(k.strays))
	require.Empty(k.t, k.statuses, "answers that no client should get")
	require.Empty(k.t, k.strays)
	require.Empty(k.t, f.violations[:min(len(f.violations), 20)])
	require.Greater(k.t, produced[ok], 20*kills, "too little load to say anything")
}

// A crash forgets leases and nothing else: at the return, what was leased comes at once, not after its visibility timeout;
// what was acknowledged a while ago does not; an old handle is worth nothing. The directory's lock died with the process.
// (FAIL-10, FAIL-12, FAIL-37, DEL-06, REC-04)
func TestKillRedeliversLeased(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir).serving()
	c := p.client()
	_, err := c.CreateTopic(t.Context(), client.TopicSpec{Name: killTopic, VisibilityMs: time.Hour.Milliseconds()})
	require.NoError(t, err)
	const messages, acked, leased = 10, 3, 4
	for n := range messages {
		require.NoError(t, c.Produce(t.Context(), client.Outgoing{Topic: killTopic, Partition: new(0), Payload: fmt.Appendf(nil, "message %d", n)}))
	}
	var handles []string
	for n := range acked + leased {
		m, err := c.Consume(t.Context(), killTopic, client.ConsumeOptions{Wait: 10 * time.Second})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("message %d", n), string(m.Payload))
		handles = append(handles, m.Handle)
	}
	for _, h := range handles[:acked] {
		require.NoError(t, c.Ack(t.Context(), killTopic, h))
	}
	time.Sleep(killUndone)
	p.kill()

	p = start(t, dir).serving()
	c = p.client()
	for _, h := range handles {
		require.ErrorIs(t, c.Ack(t.Context(), killTopic, h), client.ErrLeaseLost)
	}
	for n := acked; n < messages; n++ {
		m, err := c.Consume(t.Context(), killTopic, client.ConsumeOptions{Wait: 10 * time.Second})
		require.NoError(t, err)
		require.True(t, bytes.HasSuffix(m.Payload, fmt.Appendf(nil, " %d", n)), "%s instead of message %d", m.Payload, n)
		require.NoError(t, c.Ack(t.Context(), killTopic, m.Handle))
	}
	_, err = c.Consume(t.Context(), killTopic, client.ConsumeOptions{})
	require.ErrorIs(t, err, client.ErrEmpty)
	require.Empty(t, p.errorLines())
}
