package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/wal"
)

// Config is what a checker knows of the node it watches.
type Config struct {
	World    *sim.World
	Machine  *sim.Machine
	Interval time.Duration    // D
	Tick     time.Duration    // bounds T, as the engine's WriteoutInterval does; 0: its default
	Starve   time.Duration    // how long the scheduler may keep a runnable task from running
	Files    int              // how many descriptors of consumer.ahead the engine may hold; 0: not checked
	Messages *Messages        // of the whole world
	Excused  func(error) bool // whether an error is that of a disk that fails in this life; nil: none is
}

// Node watches the engine of one machine through all its lives.
type Node struct {
	Config
	name string
	tick time.Duration // T

	life        int // counts Listen; events of earlier lives are ignored
	serving     bool
	closing     bool
	latchedIn   int         // the newest life in which the ingress log failed; 0: none
	booted      env.Instant // when the current life began, then when it began to serve
	pausedFrom  env.Instant // of the last pause, and those shortly before it
	pausedUntil env.Instant // by the last pause
	parts       map[engine.Key]*part
	order       []*part
	log         walShadow
	tail        walTail
	waiters     map[topicKey]*waitShadow // of the current life
	topics      []topicKey               // of waiters, in the order of their first event
	waitedAt    int64                    // true time of the last event about one
	accepted    []engine.Accepted        // whose answers AcceptedAs has not told of yet
	turns       map[topicKey]*turn
	ticks       tickShadow
	cycle       lifecycle
	beliefs     beliefs
	inert       map[int64]inert // by task

	age    retention
	rhythm cadence
	told   map[int64]asked // by task
	// overflows counts windows that were read as not everything fitted, mayBeClean is set once a graceful stop has begun.
	overflows  int
	mayBeClean bool
	lastNonce  int64
	meddled    map[engine.Key]bool

	// Removed counts what retention did.
	Removed Gone
	// Causes counts redeliveries by what ended the lease before.
	Causes map[model.Ending]int
	// Goals counts the situations S-nn that were reached.
	Goals map[string]int
	// Leases, Acks and Commits count what happened, Quiets the instants at which all was at rest.
	Leases, Acks, Commits, Quiets int
	// Idled counts partitions that were closed because nobody used them.
	Idled int
	idled engine.Key // the last one
	// Corrupt counts records that were given up because the disk had rotted there.
	Corrupt int
}

// part is one partition of the node.
type part struct {
	key    engine.Key
	topic  engine.Topic
	model  *model.Partition
	copies map[int64]*copyHistory
	order  []*copyHistory // by first operation
	slots  slotShadow
	handed orderShadow

	unanswered  map[int64]int64 // reservations by offset, their nonce, that no request was given yet
	freedByAck  bool            // the last ack found the partition at its in-flight cap, and nothing was leased since
	allReserved bool            // the last reserve found everything in the window leased or settled
	opened      int             // the life in which the log was opened last
	dispatched  uint64          // highest sequence number committed in this life

	kept       kept           // the age of its records
	rotten     map[int64]int  // messages by offset whose frames rotted on the disk
	garbled    bool           // a power loss left garbage, and the log was not opened since
	garbage    map[int64]bool // offsets that may be garbage: their commits were never confirmed
	stale      []deadline     // of leases, superseded by an extend
	movedAt    int64          // true time, see moved
	expiredAt  int64          // true time when the owner found expired leases last
	idling     bool           // its shard was dropped because nobody used it, and the committer was not told yet
	logClosed  bool
	logFile    string // path of the newest segment, as far as is known
	stamp      int64  // commit time of the newest record that was confirmed, unix milliseconds
	openLogs   int    // in this life
	stored     storage
	passed     int // consumes that were answered from other partitions, one after the other, see Served
	passedLife int
	contents   map[int64]int // messages by offset, as clients read them
	reopened   int64         // records that a log showed which was closed and opened again, up to here; -1: none

	gone     bool  // its incarnation is durably gone
	goneAt   int64 // true time
	succeeds bool  // it is not the first of its name: the end of a commit of its predecessor may be told late
	dropped  bool  // and nothing of it is in memory any more
	stranded bool
	foreign  map[int64]bool // nonces of reservations that consumes of a predecessor took
}

func newPart(key engine.Key, t engine.Topic) *part {
	return &part{
		key: key, topic: t, copies: map[int64]*copyHistory{}, slots: newSlotShadow(), unanswered: map[int64]int64{}, foreign: map[int64]bool{},
		reopened: -1, stored: newStorage(),
		model: model.NewPartition(time.Duration(t.VisibilityMs) * time.Millisecond),
	}
}

// never is before the start of every world.
const never env.Instant = -1 << 62

// New returns a checker for a machine that has not booted yet.
func New(c Config) *Node {
	return &Node{
		Config: c, name: c.Machine.Name(), tick: min(cmp.Or(c.Tick, 100*time.Millisecond), c.Interval),
		parts: map[engine.Key]*part{}, log: newWALShadow(), cycle: newLifecycle(), pausedUntil: never, inert: map[int64]inert{}, turns: map[topicKey]*turn{}, Causes: map[model.Ending]int{}, Goals: map[string]int{},
	}
}

// Listen begins a new life of the node and returns the listener for its engine.
func (n *Node) Listen() func(engine.Event) {
	n.life++
	n.closing = false
	for _, p := range n.order {
		p.slots.troubles, p.idling = troubles{}, false
	}
	life := n.life
	n.ticks = tickShadow{}
	n.beliefs = newBeliefs()
	n.forgetWaiters()
	n.log.began()
	clear(n.inert)
	for _, p := range n.order {
		p.logClosed, p.openLogs = false, 0
		p.endStored()
	}
	n.booted = n.World.Now() // a life that ends in its recovery vouches for nothing of the one before
	return func(v engine.Event) {
		if life != n.life {
			return
		}
		if n.World.Logging() {
			n.World.Logf("%s", describeEvent(v))
		}
		n.see(v)
	}
}

// forgetWaiters begins with empty queues.
func (n *Node) forgetWaiters() {
	n.waiters, n.topics = map[topicKey]*waitShadow{}, nil
	for _, p := range n.order {
		p.dispatched = 0
		clear(p.unanswered)
	}
}

// describeEvent writes an event as one line of the log: its type, then its fields.
func describeEvent(v engine.Event) string {
	var inner any = v
	switch v := v.(type) {
	case engine.WAL:
		inner = v.Event
	case engine.Consumer:
		inner = v.Event
	case engine.Log:
		return fmt.Sprintf("%T %s/%d %+v", v.Event, v.Key.Topic, v.Key.Partition, v.Event)
	}
	return fmt.Sprintf("%T %+v", inner, inner)
}

// fail ends the world with a violation, naming the node.
func (n *Node) fail(err error) {
	if err != nil {
		n.World.Fail(fmt.Errorf("%s: %w", n.name, err))
	}
}

func (n *Node) failPart(p *part, err error) {
	if err != nil {
		n.World.Fail(fmt.Errorf("%s %s/%d: %w", n.name, p.key.Topic, p.key.Partition, err))
	}
}

func (n *Node) excused(err error) bool { return n.Excused != nil && n.Excused(err) }

// Goal notes that a situation was reached.
func (n *Node) Goal(name string) { n.Goals[name]++ }

// Crashed ends a life: the process died, and with power the page cache with it.
func (n *Node) Crashed(kind sim.CrashKind, report disk.Report) {
	power := kind == sim.PowerFailure
	n.life++
	n.serving = false
	for _, p := range n.order {
		p.garbled = p.garbled || report.Garbage > 0
		n.safeAtCrash(p, power)
		p.model.Crash(power)
		p.crashCopies(n.now())
	}
	n.endGone()
	n.endRetention(n.life-1, false)
	n.ticks = tickShadow{} // a crash that comes before the next life listens is not judged by this one
	if power && n.now()-n.log.storedAt < int64(250*time.Millisecond) && n.log.stored > n.log.synced {
		n.Goal("S-41") // power loss within 250 ms of a checkpoint store
	}
	if n.log.outOfOrder() {
		n.Goal("S-40") // crash with out-of-order confirmations above the checkpoint
	}
	n.log.crashed(power)
}

// Stopped ends a life gracefully.
func (n *Node) Stopped() {
	n.claimStopped()
	n.life++
	n.serving = false
	for _, p := range n.order {
		p.model.Stop()
		p.crashCopies(n.now()) // leases are forgotten all the same (REC-08)
	}
	n.endGone()
	n.endRetention(n.life-1, true)
	n.ticks = tickShadow{} // a crash that comes before the next life listens is not judged by this one
}

// Closing tells that a graceful stop has begun.
func (n *Node) Closing() { n.closing, n.mayBeClean = true, true }

// Paused tells that the machine stands still until the given true time: deadlines of its tasks are late by that.
func (n *Node) Paused(until env.Instant) {
	if n.World.Now() > n.pausedUntil.Add(pauseSpacing) {
		n.pausedFrom = n.World.Now()
	}
	n.pausedUntil = max(n.pausedUntil, until)
}

// pauseSpacing is how far apart two pauses are that have nothing to do with each other.
const pauseSpacing = 10 * time.Second

func (n *Node) now() int64 { return int64(n.World.Now()) }

func (n *Node) see(v engine.Event) {
	n.seePromises(v)
	n.claims(v)
	n.closedLog(v)
	n.seeRetention(v)
	n.moved(v)
	n.seeBeliefs(v)
	switch v := v.(type) {
	case engine.Opened:
		n.serving, n.booted = true, n.World.Now()
		n.opened()
	case engine.Accepted:
		n.fail(n.log.accepted(v.Seq))
		n.accepted = append(n.accepted, v)
		n.acceptedFor(v)
	case engine.WAL:
		n.seeWAL(v.Event)
	case engine.Dispatched:
		n.log.dispatched(v.Seq)
		n.recommitted(n.parts[v.Key], v)
		n.inOrder(n.parts[v.Key], v)
	case engine.Log:
		n.seeLog(n.cycle.all[incKey{v.Key, v.Incarnation}], v.Event)
	case engine.Consumer:
		n.seeConsumer(v.Event)
	case engine.RecordHeld:
		n.fail(model.Violate("INV-03", "record %d of the ingress log fits no topic: %v", v.Seq, v.Err))
	case engine.DestinationHung:
		n.Goal("a hung commit gave up its slot")
	case engine.DestinationBehind:
		n.Goal("records of one destination were passed over")
	case engine.WaiterJoined, engine.WaiterLeft, engine.WaiterServed, engine.PumpPass, engine.PumpPutBack:
		n.seeWaiter(v)
	default:
		if !n.seeTopic(v) {
			n.seeShard(v)
		}
	}
}

// inOrder checks that within a life no record of a partition overtakes an earlier one (ORD-02).
func (n *Node) inOrder(p *part, v engine.Dispatched) {
	if v.Seq <= p.dispatched && n.Incarnation(v.Key.Topic) == p.topic.ID && !p.succeeds {
		n.failPart(p, model.Violate("ORD-02", "record %d was committed after record %d of the same partition", v.Seq, p.dispatched))
	}
	p.dispatched = v.Seq
}

func (n *Node) seeWAL(v wal.Event) {
	n.seeLatch(v)
	err := n.log.see(v, n.now())
	n.fail(err)
}

// seeLog follows the high watermark (INV-04).
func (n *Node) seeLog(p *part, v segment.Event) {
	n.seeStored(p, v)
	switch v := v.(type) {
	case segment.Recovered:
		if v.Next > p.model.HW {
			n.storedUnconfirmed(p)
			p.reopened = v.Next
		}
		p.opened = n.life
		p.recoveredGarbage(v.Next)
		if !n.meddled[p.key] {
			n.failPart(p, p.model.Advance(v.Next))
		}
	case segment.Committed:
		n.Commits++
		p.reopened = -1
		if v.Base != p.model.HW {
			n.failPart(p, model.Violate("INV-04", "commit at offset %d, the high watermark was %d: offsets are dense (LOG-07)", v.Base, p.model.HW))
		}
		n.failPart(p, p.model.Advance(v.Next))
	}
}

// storedUnconfirmed notes that a log holds more than was ever confirmed.
func (n *Node) storedUnconfirmed(p *part) {
	if p.opened == n.life {
		n.Goal("S-39 resent") // a commit was stored, its answer was a failure, and it is sent again
	} else {
		n.Goal("S-43") // the owner crashed between the sync and raising the high watermark
	}
}

// seeShard follows the lease table of a partition.
func (n *Node) seeShard(v engine.Event) {
	switch v := v.(type) {
	case engine.ShardOpened:
		if p := n.seeded(v); p != nil {
			n.failPart(p, n.openShard(p, v))
		}
	case engine.ConsumerSnapshot:
		p := n.parts[v.Key]
		n.failPart(p, p.model.Take(snapshot(v.State, n.now())))
	case engine.Leased:
		n.leased(n.parts[v.Key], v)
	case engine.Settled:
		p := n.parts[v.Key]
		n.Acks++
		n.touched(p, v.At)
		if p.foreign[v.Nonce] {
			n.failPart(p, model.Violate("INV-01", "offset %d was acked with the handle of a reservation that an old incarnation's consume took", v.Offset))
		}
		p.freedByAck = p.model.Leases() == int(p.topic.MaxInFlight)
		if v.Offset > v.Committed && int(p.topic.MaxAckedAhead) <= p.model.Ahead() {
			n.Goal("S-09") // acked-ahead above its cap
		}
		n.failPart(p, p.model.Ack(v.Offset, v.Nonce, v.Committed, int64(v.At)))
	case engine.Delivered:
		n.delivered(n.parts[v.Key], v)
	case engine.Withheld:
		n.withheld(n.parts[v.Key], v)
	case engine.LeaseExtended:
		p := n.parts[v.Key]
		p.superseded(v)
		n.failPart(p, p.model.Extend(v.Lease.Offset, v.Lease.Nonce, int64(v.Lease.Expiry), int64(v.At)))
	case engine.LeaseEnded:
		n.leaseEnded(n.parts[v.Key], v)
	case engine.LeasesExpired:
		p := n.parts[v.Key]
		n.touched(p, v.At)
		p.expiredAt = n.now()
		if p.allReserved {
			n.Goal("S-10") // an all_reserved window ended by expiry
			p.allReserved = false
		}
		n.failPart(p, p.model.Expire(v.Count, int64(v.At)))
	case engine.HandleRefused:
		n.refused(n.parts[v.Key], v)
	case engine.CorruptSkipped:
		n.corruptSkipped(n.parts[v.Key], v)
	case engine.FrontierClamped:
		p := n.parts[v.Key]
		if n.meddled[v.Key] {
			break
		}
		n.failPart(p, model.Violate("INV-11", "the recovered frontier %d lies beyond the log's end %d", v.Frontier, v.HW))
	case engine.DispatchStalled:
		if n.excused(v.Err) {
			n.Goal("dispatching stopped on a failing disk")
			break
		}
		n.fail(model.Violate("INV-03", "dispatching stopped: %v", v.Err))
	}
}

func (n *Node) leased(p *part, v engine.Leased) {
	n.Leases++
	n.touched(p, v.At)
	lease := model.Lease{Nonce: v.Lease.Nonce, Expiry: int64(v.Lease.Expiry)}
	inFlight, ahead := int(p.topic.MaxInFlight), int(p.topic.MaxAckedAhead)
	var why model.Ending
	var err error
	if v.Incarnation == p.topic.ID {
		why, err = p.model.Reserve(v.Lease.Offset, lease, int64(v.At), p.lowest(v), v.HW, inFlight, ahead)
	} else {
		n.foreign(p, v)
		why, err = p.model.ReserveUnseen(v.Lease.Offset, lease, int64(v.At), inFlight, ahead)
	}
	n.failPart(p, err)
	if why != model.NeverLeased {
		n.Causes[why]++
	}
	n.reordered(p, why, v.Lease.Offset)
	p.unanswered[v.Lease.Offset] = v.Lease.Nonce
	if v.Handout == engine.HandoutPump {
		n.waitersOf(v.Key.Topic, v.Incarnation).pumped = v.Key.Partition
		if p.freedByAck { // S-04: an ack took the partition from capped to uncapped
			n.Goal("S-04")
		}
		n.servedBy(p, why, v.Lease.Offset)
	}
	p.freedByAck = false
	n.reserveOp(p, v)
}

// servedBy counts what alone brought a parked request its record (S-03).
func (n *Node) servedBy(p *part, why model.Ending, offset int64) {
	switch {
	case why == model.Expired:
		n.Goal("S-03 expiry")
	case why == model.Nacked:
		n.Goal("S-03 nack")
	case why == model.NeverLeased && offset < p.reopened:
		n.Goal("S-03 close") // its log was closed, and opened again it showed more
	}
}

// withheld follows why a partition had nothing to hand out.
func (n *Node) withheld(p *part, v engine.Withheld) {
	p.noteStranded(v.Outcome)
	switch v.Outcome {
	case inflight.AheadCap:
		n.Goal("S-08") // acked-ahead at its cap, the hole leased
	case inflight.AllReserved:
		p.allReserved = true
	}
}

func (n *Node) leaseEnded(p *part, v engine.LeaseEnded) {
	how := model.GivenBack
	switch v.Cause {
	case engine.CauseNack:
		how = model.Nacked
	case engine.CauseCancel:
		n.Goal("S-02") // a cancel met a hand-over
	case engine.CauseCut:
		n.Goal("a batch was cut")
	}
	n.failPart(p, p.model.End(v.Offset, v.Nonce, int64(v.At), how))
	if how == model.GivenBack {
		n.instantOp(p, v.Offset, model.OpRelease, v.Nonce)
	}
}

func (n *Node) refused(p *part, v engine.HandleRefused) {
	n.failPart(p, p.model.Refuse(v.Handle.Offset, v.Handle.Nonce, int64(v.At)))
	if !p.model.KnowsNonce(v.Handle.Nonce) {
		return // forged
	}
	if held, ok := p.model.Lease(v.Handle.Offset); ok && held.Nonce != v.Handle.Nonce {
		n.Goal("S-05") // late ack on a re-reserved offset
	} else if !ok && p.model.LastEnding(v.Handle.Offset) == model.Expired {
		n.Goal("S-06") // late ack on an expired, not re-reserved offset
	}
}

func snapshot(s inflight.State, at int64) *model.Snapshot {
	m := &model.Snapshot{Committed: s.Committed, Ahead: slices.Clone(s.Ahead), At: at}
	slices.Sort(m.Ahead)
	return m
}

// Closed reports whether a graceful stop has begun in this life.
func (n *Node) Closed() bool { return n.closing }

// Redelivery checks that no lease outlives its expiry by more than the purge cadence (INV-23); monotonic is what
// the clock of the node's process shows now.
func (n *Node) Redelivery(monotonic env.Instant) {
	slack := time.Second + n.slack()
	if n.World.Now() < n.pausedUntil.Add(2*slack) {
		return
	}
	for _, p := range n.order {
		if p.gone { // nobody is told of it any more
			continue
		}
		if o, late := p.model.Overdue(int64(monotonic), int64(slack)); late {
			n.failPart(p, model.Violate("INV-23", "the lease of offset %d expired more than %v ago and was not released", o, slack))
		}
	}
}
