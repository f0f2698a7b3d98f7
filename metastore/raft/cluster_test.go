package raft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"narad/metastore"
	"narad/metastore/metastoretest"

	"github.com/anishathalye/porcupine"
	hraft "github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// cluster is three voters in one bubble of virtual time. Only the task of the test changes it; clients ask for nodes.
type cluster struct {
	t     testing.TB
	dirs  []string
	trans []*hraft.InmemTransport

	mu     sync.Mutex // guards stores
	stores []*Store   // nil: down
	errs   atomic.Pointer[error]
}

func newCluster(t testing.TB, dirs []string) *cluster {
	c := &cluster{t: t, dirs: dirs, stores: make([]*Store, len(dirs)), trans: make([]*hraft.InmemTransport, len(dirs))}
	for i := range dirs {
		_, c.trans[i] = hraft.NewInmemTransport(c.addr(i))
	}
	c.heal()
	for i := range dirs {
		c.start(i)
	}
	return c
}

func (c *cluster) addr(i int) hraft.ServerAddress { return hraft.ServerAddress(fmt.Sprint("n", i)) }

func (c *cluster) config(i int) Config {
	var peers []Peer
	for p := range c.dirs {
		peers = append(peers, Peer{fmt.Sprint("n", p), fmt.Sprint("n", p)})
	}
	cfg := Config{NodeID: peers[i].ID, Peers: peers, SnapshotThreshold: 20, SnapshotInterval: 2 * time.Second, TrailingLogs: 5}
	cfg.transport, cfg.noSync = c.trans[i], true
	// The clock of the first node goes slowly: when it leads and is cut off it believes for seconds that it still does. The
	// replica of each takes its time now and then.
	if cfg.timeouts = 400 * time.Millisecond; i == 0 {
		cfg.timeouts, cfg.lease = 4*time.Second, 4*time.Second
	}
	cfg.failWrite = func() error {
		if rand.IntN(8) == 0 {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		}
		return nil
	}
	cfg.OnStop = func(err error) { c.errs.Store(&err) }
	return cfg
}

func (c *cluster) start(i int) {
	s, err := start(c.dirs[i], c.config(i))
	require.NoError(c.t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[i] = s
}

// crash ends a node without a farewell: no leadership is handed over. What was committed to its files stays.
func (c *cluster) crash(i int) {
	c.mu.Lock()
	s := c.stores[i]
	c.stores[i] = nil
	c.mu.Unlock()
	if s == nil {
		return
	}
	s.leave()
	require.NoError(c.t, s.raft.Shutdown().Error())
	s.watchers.Wait()
	s.files.disk = s.fsm.disk
	require.NoError(c.t, s.files.close())
	_, c.trans[i] = hraft.NewInmemTransport(c.addr(i)) // what was on its way to the old one is lost
	c.heal()
}

// heal connects all.
func (c *cluster) heal() { c.partition(func(int, int) bool { return true }) }

// partition connects those nodes for which reach says so.
func (c *cluster) partition(reach func(from, to int) bool) {
	for from, t := range c.trans {
		for to, u := range c.trans {
			if from == to {
				continue
			}
			if reach(from, to) {
				t.Connect(c.addr(to), u)
			} else {
				t.Disconnect(c.addr(to))
			}
		}
	}
}

func (c *cluster) store(i int) *Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores[i]
}

func (c *cluster) leader() int {
	for i := range c.dirs {
		if s := c.store(i); s != nil && s.raft.State() == hraft.Leader {
			return i
		}
	}
	return rand.IntN(len(c.dirs))
}

// misfortune does something to the cluster that fewer than all have to survive.
func (c *cluster) misfortune() string {
	one := rand.IntN(len(c.dirs))
	switch rand.IntN(7) {
	case 0, 1:
		one = c.leader()
		if s := c.store(one); one != 0 && s != nil { // the slow one is to lead more often than it would
			_ = s.raft.LeadershipTransferToServer("n0", c.addr(0)).Error()
			one = c.leader()
		}
		fallthrough
	case 2:
		c.partition(func(from, to int) bool { return from != one && to != one })
		return "cut off"
	case 3:
		c.partition(func(from, to int) bool { return from != one })
		return "mute"
	case 4:
		one = c.leader()
		c.crash(one)
		return "leader crashed"
	case 5:
		c.crash(one)
		return "crashed"
	}
	for i := range c.dirs {
		c.crash(i)
	}
	return "all crashed"
}

// recover ends a misfortune.
func (c *cluster) recover() {
	c.heal()
	for i := range c.dirs {
		if c.store(i) == nil {
			c.start(i)
		}
	}
}

// kinds of an operation of a client on one topic or user.
const (
	opCreate  = "create"
	opGrow    = "grow" // one partition more, or another password
	opRead    = "read" // through the leader
	opReplace = "replace"
	opRemove  = "remove"
	opFinal   = "final" // what all replicas show at the end
)

// input is an operation; number makes the incarnation or the value, next that of a replacement.
type input struct {
	kind         string
	user         bool
	name         string
	number, next int
}

// output is its answer.
type output struct {
	answer string // "ok", "exists", "absent", "other" (incarnation) or "unknown"
	value  int    // partitions; of opFinal also:
	number int    // incarnation, -1: absent
}

// thing is the state of one name: a topic, or a user of which the value is the password.
type thing struct {
	there  bool
	number int
	value  int
}

// model is a name as one reader and writer after another would have it. A change without an answer was made or not.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{thing{}} },
	Step: func(state, in, out any) []any {
		now, i, o := state.(thing), in.(input), out.(output)
		after, answer, value := now.step(i)
		if o.answer == "unknown" {
			if answer == "ok" {
				return []any{now, after}
			}
			return []any{now}
		}
		if i.kind == opFinal {
			if o.number == -1 && !now.there || now.there && now.number == o.number && now.value == o.value {
				return []any{now}
			}
			return nil
		}
		if o.answer != answer || answer == "ok" && (i.kind == opGrow || i.kind == opRead) && !i.user && o.value != value {
			return nil
		}
		return []any{after}
	},
}).ToModel()

// step returns what an operation makes of a name, and how it is answered.
func (t thing) step(i input) (after thing, answer string, value int) {
	switch {
	case i.kind == opCreate && t.there:
		return t, "exists", 0
	case i.kind == opCreate && i.user:
		return thing{true, 0, i.number}, "ok", 0
	case i.kind == opCreate:
		return thing{true, i.number, 3}, "ok", 0
	case !t.there:
		return t, "absent", 0
	case !i.user && t.number != i.number:
		return t, "other", 0
	}
	after = t
	switch i.kind {
	case opGrow:
		if after.value++; i.user {
			after.value = i.number
		}
	case opReplace:
		after.number = i.next
	case opRemove:
		after = thing{}
	}
	return after, "ok", after.value
}

// history is what clients saw, by name. Instants are the numbers of a counter: of two operations one is before the other only if it
// was answered before the other was begun.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex // guards what follows
	ops   map[string][]porcupine.Operation
	seen  map[string]int // answers
}

func newHistory() *history {
	return &history{ops: map[string][]porcupine.Operation{}, seen: map[string]int{}}
}

func (h *history) add(client int, i input, call int64, o output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[o.answer]++
	if o.answer == "none" { // it was refused before anything was done: a failure that tells nothing
		return
	}
	ret := h.clock.Add(1)
	if o.answer == "unknown" {
		ret = math.MaxInt64
	}
	key := fmt.Sprint(i.user, i.name)
	h.ops[key] = append(h.ops[key], porcupine.Operation{ClientId: client, Input: i, Call: call, Output: o, Return: ret})
}

// judge returns the worst verdict of all names. One that takes too long is no pass.
func (h *history) judge() porcupine.CheckResult {
	worst := porcupine.Ok
	for _, ops := range h.ops {
		if r := porcupine.CheckOperationsTimeout(model, ops, time.Minute); r != porcupine.Ok && worst != porcupine.Illegal {
			worst = r
		}
	}
	return worst
}

// client is one of those who change things.
type client struct {
	id      int
	cluster *cluster
	history *history
	known   map[string]int // incarnation of a topic, as far as it knows
	minted  *atomic.Int64
	nodes   []int // that it talks to
	reads   bool  // and nothing else

	// Bugs to plant.
	staleReads   bool // a read is answered by any replica
	falseRefusal bool // a change of which the outcome is not known is called refused
}

func (c *client) run(end time.Time) {
	last := c.anyNode()
	for time.Now().Before(end) {
		if rand.IntN(4) == 0 {
			last = c.anyNode()
		}
		s := c.cluster.store(last)
		if s == nil {
			last = c.anyNode()
			time.Sleep(10 * time.Millisecond)
			continue
		}
		i := c.choose()
		call := c.history.clock.Add(1)
		o := c.do(s, i)
		c.history.add(c.id, i, call, o)
		if o.answer == "none" {
			last = c.anyNode()
		}
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
	}
}

func (c *client) anyNode() int { return c.nodes[rand.IntN(len(c.nodes))] }

func (c *client) choose() input {
	i := input{user: rand.IntN(3) == 0, name: fmt.Sprint("x", rand.IntN(3)), next: int(c.minted.Add(1))}
	i.kind = []string{opCreate, opCreate, opGrow, opGrow, opGrow, opRead, opRead, opReplace, opRemove}[rand.IntN(9)]
	i.number = c.known[i.name]
	if c.reads {
		i.user, i.kind = false, opRead
	}
	if i.user && (i.kind == opRead || i.kind == opReplace) {
		i.kind = opGrow
	}
	if i.kind == opCreate || i.user {
		i.number = int(c.minted.Add(1))
	}
	return i
}

func (c *client) do(s *Store, i input) output {
	id := func(n int) string { return metastoretest.Topic("", n).ID }
	var err error
	var after metastore.Topic
	hash := fmt.Append(nil, i.number)
	switch {
	case i.user && i.kind == opCreate:
		u := metastoretest.User(i.name)
		u.PasswordHash = hash
		err = s.CreateUser(u)
	case i.user && i.kind == opGrow:
		err = s.SetPassword(i.name, hash, 1)
	case i.user:
		err = s.DeleteUser(i.name)
	case i.kind == opCreate:
		err = s.Create(metastoretest.Topic(i.name, i.number))
	case i.kind == opGrow:
		after, err = s.Update(i.name, id(i.number), func(t *metastore.Topic) error { t.Partitions++; return nil })
	case i.kind == opRead:
		after, err = c.read(s, i.name, id(i.number))
	case i.kind == opReplace:
		next := metastoretest.Topic(i.name, i.next)
		if now, found := s.Get(i.name); found {
			next.Partitions = now.Partitions
		}
		err = s.Replace(id(i.number), next)
	case i.kind == opRemove:
		err = s.Delete(i.name, id(i.number))
	}
	o := c.answer(err, int(after.Partitions))
	if o.answer == "ok" && !i.user {
		if c.known[i.name] = i.number; i.kind == opReplace {
			c.known[i.name] = i.next
		}
	} else if now, found := s.Get(i.name); found { // what it should have asked for
		fmt.Sscanf(now.ID, "%x", &i.number)
		c.known[i.name] = i.number
	}
	return o
}

func (c *client) read(s *Store, name, id string) (metastore.Topic, error) {
	if !c.staleReads {
		return s.Update(name, id, func(*metastore.Topic) error { return nil })
	}
	now, found := s.Get(name)
	switch {
	case !found:
		return now, metastore.ErrNotFound
	case now.ID != id:
		return now, metastore.ErrOtherIncarnation
	}
	return now, nil
}

func (c *client) answer(err error, value int) output {
	switch {
	case err == nil:
		return output{answer: "ok", value: value}
	case errors.Is(err, metastore.ErrOtherIncarnation):
		return output{answer: "other"}
	case errors.Is(err, metastore.ErrNotFound), errors.Is(err, metastore.ErrUserNotFound):
		return output{answer: "absent"}
	case errors.Is(err, metastore.ErrExists), errors.Is(err, metastore.ErrUserExists):
		return output{answer: "exists"}
	case errors.Is(err, metastore.ErrNoLeader), errors.Is(err, metastore.ErrClosed), errors.Is(err, metastore.ErrInvalid):
		// Invalid is a replacement that did not know of the newest number of partitions.
		return output{answer: "none"}
	case errors.Is(err, metastore.ErrUncertain) && c.falseRefusal:
		return output{answer: "none"}
	case errors.Is(err, metastore.ErrUncertain):
		return output{answer: "unknown"}
	}
	panic(err)
}

// storm runs clients on a cluster that suffers, lets it recover, and returns what the clients saw. It fails when the replicas do
// not come together, or when nobody can make a change in the end.
func storm(t *testing.T, span time.Duration, plant func(*client)) *history {
	h := newHistory()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, dirs)
		end := time.Now().Add(span)
		var clients sync.WaitGroup
		minted := &atomic.Int64{}
		apart := rand.IntN(2) == 0 // those who change things never ask the first node, whose readers may then notice late
		for id := range 8 {
			cl := &client{id: id, cluster: c, history: h, known: map[string]int{}, minted: minted, nodes: []int{0, 1, 2}}
			if apart && id < 4 {
				cl.nodes = []int{1, 2}
			} else if apart {
				cl.reads = true
			}
			plant(cl)
			clients.Go(func() { cl.run(end) })
		}
		troubles := map[string]int{}
		for time.Sleep(3 * time.Second); time.Now().Before(end); {
			troubles[c.misfortune()]++
			time.Sleep(time.Duration(rand.IntN(6000)) * time.Millisecond)
			c.recover()
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Millisecond)
		}
		clients.Wait()
		c.recover()
		c.settle(h)
		t.Logf("%v; answers %v", troubles, h.seen)
		for i := range dirs {
			c.crash(i)
		}
	})
	return h
}

// settle waits until all replicas show the same, and adds that to the history.
func (c *cluster) settle(h *history) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for i := 0; ; i = (i + 1) % len(c.dirs) {
		err := c.store(i).CreateUser(metastoretest.User("end"))
		if err == nil || errors.Is(err, metastore.ErrUserExists) {
			break
		}
		require.NoError(c.t, ctx.Err(), "nobody leads: %v", err)
		time.Sleep(100 * time.Millisecond)
	}
	for i := range c.dirs {
		for c.store(i).Version() != c.store(c.leader()).Version() || !c.store(i).isCaughtUp() {
			require.NoError(c.t, ctx.Err(), "node %d lags: %+v", i, c.store(i).Status())
			time.Sleep(100 * time.Millisecond)
		}
	}
	for i := range c.dirs {
		require.Equal(c.t, contents(c.store(0)), contents(c.store(i)))
		require.NoError(c.t, c.store(i).Ready())
	}
	require.Nil(c.t, c.errs.Load())
	s := c.store(0)
	for n := range 3 {
		name := fmt.Sprint("x", n)
		o := output{answer: opFinal, number: -1}
		if t, found := s.Get(name); found {
			fmt.Sscanf(t.ID, "%x", &o.number)
			o.value = int(t.Partitions)
		}
		h.add(99, input{kind: opFinal, name: name}, h.clock.Add(1), o)
		o = output{answer: opFinal, number: -1}
		if u, found := s.User(name); found {
			o.number = 0
			fmt.Sscan(string(u.PasswordHash), &o.value)
		}
		h.add(99, input{kind: opFinal, user: true, name: name}, h.clock.Add(1), o)
	}
}

// TestStorms: whatever happens to three voters, what their clients saw is what one copy could have answered, and in the end all
// replicas are the same. B129 B136 B141 B163
func TestStorms(t *testing.T) {
	runs, span := 6, time.Minute
	if os.Getenv("NARAD_LONG") != "" {
		runs, span = 100, 2*time.Minute
	}
	total := map[string]int{}
	for range runs {
		h := storm(t, span, func(*client) {})
		require.Equal(t, porcupine.Ok, h.judge())
		for answer, n := range h.seen {
			total[answer] += n
		}
	}
	for _, answer := range []string{"ok", "exists", "absent", "other", "none", "unknown"} {
		require.NotZero(t, total[answer], "%s never happened", answer)
	}
}

// TestStormsSeeBugs: histories of clients that are lied to are called illegal, within a few storms.
func TestStormsSeeBugs(t *testing.T) {
	for name, plant := range map[string]func(*client){
		"a replica's reads pass for the leader's":     func(c *client) { c.staleReads = true },
		"a change that may be made is called refused": func(c *client) { c.falseRefusal = true },
	} {
		t.Run(name, func(t *testing.T) {
			for range 40 {
				if storm(t, time.Minute, plant).judge() == porcupine.Illegal {
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}

// TestModel: the model that judges histories is itself judged by some that are known.
func TestModel(t *testing.T) {
	legal := func(lines ...string) bool {
		h := newHistory()
		for _, line := range lines {
			f := strings.Fields(line)
			i := input{kind: f[0], name: "x"}
			o := output{answer: f[2]}
			fmt.Sscan(f[1], &i.number)
			if len(f) > 3 {
				fmt.Sscan(f[3], &o.value)
			}
			if i.kind == opFinal {
				o.number, i.number = i.number, 0
			}
			h.add(0, i, h.clock.Add(1), o)
		}
		return h.judge() == porcupine.Ok
	}
	require.True(t, legal("create 1 ok", "grow 1 ok 4", "read 1 ok 4", "create 2 exists", "remove 1 ok", "grow 1 absent", "create 2 ok", "grow 1 other", "final 2 ok 3"))
	require.True(t, legal("create 1 unknown", "read 1 absent", "create 2 exists", "final 1 ok 3"))
	require.True(t, legal("create 1 ok", "remove 1 unknown", "read 1 ok 3", "final -1 ok"))
	require.False(t, legal("create 1 ok", "read 1 absent"))
	require.False(t, legal("create 1 ok", "grow 1 ok 4", "read 1 ok 3"))
	require.False(t, legal("create 1 ok", "grow 1 ok 4", "grow 1 ok 4"))
	require.False(t, legal("create 1 ok", "final -1 ok"))
	require.False(t, legal("create 1 unknown", "create 2 ok", "remove 2 ok", "final 2 ok 3"))
	require.False(t, legal("create 1 ok", "create 2 ok"))
}
