package model

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Lease is a reservation as the model knows it. Times are the owner's monotonic clock in nanoseconds.
type Lease struct {
	Nonce  int64
	Expiry int64
}

// Snapshot is a state of settled messages that was on its way to the disk.
type Snapshot struct {
	Committed int64
	Ahead     []int64 // settled above Committed, sorted
	At        int64   // true time when it was taken
}

// Settled reports whether the snapshot holds the offset as settled.
func (s *Snapshot) Settled(offset int64) bool {
	if offset <= s.Committed {
		return true
	}
	_, found := slices.BinarySearch(s.Ahead, offset)
	return found
}

// Ending is how a lease ended.
type Ending uint8

// Endings; each but Acked makes the next lease of the offset a redelivery with this cause.
const (
	NeverLeased Ending = iota
	Live               // still leased: only a crash explains another lease
	Expired
	Nacked
	GivenBack
	Acked
	CrashedLeased // the owner died while it was leased
	CrashedAcked  // it was acked, and the crash undid the ack
	Skipped       // it could not be read; a crash may undo that, and it cannot be read again
)

func (e Ending) String() string {
	return [...]string{"never leased", "live", "expired", "nacked", "given back", "acked", "leased at a crash", "ack undone by a crash", "skipped as corrupt before a crash"}[e]
}

// Partition is the shadow of one partition of one node, across its restarts.
type Partition struct {
	Visibility time.Duration

	HW        int64          // the highest high watermark ever announced, exclusive
	open      bool           // the shard of the current life exists
	committed int64          // frontier of the live shard
	settled   int            // how many offsets are above the frontier
	skips     map[int64]bool // above the frontier, skipped as corrupt in the current life; they count for no cap and are not stored
	leases    map[int64]Lease
	low       int64          // no offset above the frontier and below this one is free
	offsets   []offset       // what is known of each, see at
	nonces    map[int64]bool // every nonce ever handed out

	taken   *Snapshot // the snapshot that the committer took last; what did not fit in its slot is taken out of it
	cut     bool      // something was
	whole   *Snapshot // newest one that was written whole, or read, in this life
	Cached  *Snapshot // newest one known to be in the page cache
	Durable *Snapshot // newest one known to be on the disk
	exact   *Snapshot // after a graceful stop: what the next start must find
}

// offset is what the shadow knows of one offset. Partitions hold tens of thousands, and every event asks for some.
type offset struct {
	returned int64  // true time when the newest accepted ack returned
	known    bool   // returned is set
	last     Ending // how the newest lease ended
	acked    bool   // in some life
	skipped  bool   // never to be acked: corrupt, or below the retention floor
	settled  bool   // in the live shard, above the frontier
}

// offsetsMost is more than any world stores in one partition: what lies above is nonsense, of which nothing is remembered.
const offsetsMost = 1 << 24

// at returns what is known of an offset, for changing.
func (p *Partition) at(o int64) *offset {
	if o < 0 || o >= offsetsMost {
		return new(offset)
	}
	if more := o + 1 - int64(len(p.offsets)); more > 0 {
		p.offsets = append(p.offsets, make([]offset, more)...)
	}
	return &p.offsets[o]
}

// of returns what is known of an offset.
func (p *Partition) of(o int64) offset {
	if uint64(o) < uint64(len(p.offsets)) {
		return p.offsets[o]
	}
	return offset{}
}

// above returns the offsets above one, with what is known of them.
func (p *Partition) above(o int64) iter.Seq2[int64, *offset] {
	return func(yield func(int64, *offset) bool) {
		for o = max(o+1, 0); o < int64(len(p.offsets)); o++ {
			if !yield(o, &p.offsets[o]) {
				return
			}
		}
	}
}

// NewPartition returns the shadow of an empty partition.
func NewPartition(visibility time.Duration) *Partition {
	empty := func() *Snapshot { return &Snapshot{Committed: -1} }
	return &Partition{
		Visibility: visibility, committed: -1, leases: map[int64]Lease{}, nonces: map[int64]bool{}, skips: map[int64]bool{},
		Cached: empty(), Durable: empty(),
	}
}

// Committed returns the frontier of the live shard, and whether there is one.
func (p *Partition) Committed() (int64, bool) { return p.committed, p.open }

// IsSettled reports whether the live shard holds the offset as settled.
func (p *Partition) IsSettled(offset int64) bool {
	return offset <= p.committed || p.of(offset).settled || p.skips[offset]
}

// Lease returns the live lease of an offset.
func (p *Partition) Lease(offset int64) (Lease, bool) {
	l, ok := p.leases[offset]
	return l, ok
}

// Skips returns the number of offsets above the frontier that were skipped as corrupt in this life.
func (p *Partition) Skips() int { return len(p.skips) }

// Leases returns the number of leases that have not ended.
func (p *Partition) Leases() int { return len(p.leases) }

// Advance is told that the high watermark is hw now.
func (p *Partition) Advance(hw int64) error {
	if hw < p.HW { // INV-04: also after a power loss, so that no offset under it is used again
		return Violate("INV-04", "high watermark went from %d back to %d", p.HW, hw)
	}
	p.HW = hw
	return nil
}

// OpenShard is told what a new shard was seeded with.
func (p *Partition) OpenShard(s *Snapshot) error {
	if p.open {
		return Violate("INV-07", "a second shard was opened in one life of the process")
	}
	if s.Committed >= p.HW {
		return Violate("INV-11", "recovered frontier %d, high watermark %d", s.Committed, p.HW)
	}
	if err := p.onlySettled(s); err != nil {
		return err
	}
	if err := p.keepsSnapshot(s); err != nil {
		return err
	}
	p.undo(s)
	p.forgetSettled()
	p.open, p.committed, p.low = true, s.Committed, 0
	for _, o := range s.Ahead {
		p.mark(o)
	}
	p.exact, p.whole = nil, s
	return nil
}

// forgetSettled empties the set of settled offsets above the frontier.
func (p *Partition) forgetSettled() {
	for _, e := range p.above(-1) {
		e.settled = false
	}
	p.settled = 0
}

// onlySettled checks that no frontier lies past an ack: recovered ⊆ settled in some life (INV-11, COM-18).
func (p *Partition) onlySettled(s *Snapshot) error {
	for o := int64(0); o <= s.Committed; o++ {
		if e := p.of(o); !e.acked && !e.skipped {
			return Violate("INV-11", "recovered frontier %d covers offset %d, which nobody acked", s.Committed, o)
		}
	}
	for _, o := range s.Ahead {
		if e := p.of(o); !e.acked && !e.skipped {
			return Violate("INV-11", "recovered acked-ahead offset %d, which nobody acked", o)
		}
	}
	return nil
}

// keepsSnapshot checks that what was written is still there: after a process crash what the page cache held
// (INV-08), after a power loss what the disk held (INV-09); Crashed has reduced Cached accordingly.
func (p *Partition) keepsSnapshot(s *Snapshot) error {
	invariant, floor := "INV-08 or INV-09", p.Cached
	if p.exact != nil {
		invariant, floor = "INV-10", p.exact
	}
	if o, lost := p.firstMissing(floor, s); lost {
		return Violate(invariant, "offset %d was settled in the state that a write had brought to safety (frontier %d), the recovered frontier is %d", o, floor.Committed, s.Committed)
	}
	return nil
}

func (p *Partition) firstMissing(want, have *Snapshot) (int64, bool) {
	for o := have.Committed + 1; o <= want.Committed; o++ {
		if !have.Settled(o) && !p.of(o).skipped {
			return o, true
		}
	}
	for _, o := range want.Ahead {
		if !have.Settled(o) && !p.of(o).skipped {
			return o, true
		}
	}
	return 0, false
}

// undo notes which acks the crash undid.
func (p *Partition) undo(s *Snapshot) {
	for o, e := range p.above(s.Committed) {
		if e.last == Acked && !s.Settled(o) {
			e.last = CrashedAcked
		}
	}
}

// Undone returns the offsets whose ack had returned and that are not settled in s, with the time of that return.
func (p *Partition) Undone(s *Snapshot) map[int64]int64 {
	undone := map[int64]int64{}
	for o, e := range p.above(s.Committed) {
		if e.known && e.last == Acked && !s.Settled(o) {
			undone[o] = e.returned
		}
	}
	return undone
}

// Returned is told that an accepted ack has returned: from here on the windows of the contract count.
func (p *Partition) Returned(offset, trueTime int64) {
	e := p.at(offset)
	e.returned, e.known = trueTime, true
}

// WasAcked reports whether an ack of the offset was ever accepted.
func (p *Partition) WasAcked(offset int64) bool { return p.of(offset).acked }

// Ahead returns how many offsets are settled above the frontier.
func (p *Partition) Ahead() int { return p.settled }

// KnowsNonce reports whether a nonce was ever handed out.
func (p *Partition) KnowsNonce(nonce int64) bool { return p.nonces[nonce] }

// LastEnding returns how the newest lease of an offset ended.
func (p *Partition) LastEnding(offset int64) Ending { return p.of(offset).last }

// Overdue returns an offset whose lease expired more than slack before now and was not released.
func (p *Partition) Overdue(now, slack int64) (int64, bool) {
	for _, o := range slices.Sorted(maps.Keys(p.leases)) {
		if now > p.leases[o].Expiry+slack {
			return o, true
		}
	}
	return 0, false
}

// Truncate is told that of the snapshot taken last only the lowest n offsets above the frontier were stored. The acks of the others
// are not safe, however old they are (INV-13).
func (p *Partition) Truncate(n int) {
	for _, o := range p.taken.Ahead[n:] {
		p.at(o).known = false
	}
	p.taken, p.cut = &Snapshot{Committed: p.taken.Committed, Ahead: p.taken.Ahead[:n], At: p.taken.At}, true
}

// Reserve is told of a new lease and returns why the offset was free, which is the cause of the redelivery if
// it is one.
func (p *Partition) Reserve(offset int64, l Lease, now, low, hw int64, maxInFlight, maxAhead int) (Ending, error) {
	if p.open && (offset < low || offset >= hw || hw > p.HW) {
		return 0, Violate("INV-04", "offset %d leased, retained is [%d, %d), confirmed is %d", offset, low, hw, p.HW)
	}
	return p.ReserveUnseen(offset, l, now, maxInFlight, maxAhead)
}

// ReserveUnseen is Reserve for a lease whose offset was not chosen by what this partition holds.
func (p *Partition) ReserveUnseen(offset int64, l Lease, now int64, maxInFlight, maxAhead int) (Ending, error) {
	if !p.open {
		return 0, Violate("INV-05", "offset %d leased without a shard", offset)
	}
	if p.IsSettled(offset) {
		return 0, Violate("INV-07", "offset %d leased after it was settled (frontier %d)", offset, p.committed)
	}
	if held, ok := p.leases[offset]; ok {
		return 0, Violate("INV-05", "offset %d leased under nonce %d while nonce %d holds it until %d, now %d", offset, l.Nonce, held.Nonce, held.Expiry, now)
	}
	if p.nonces[l.Nonce] {
		return 0, Violate("INV-05", "nonce %d of offset %d was used before on this partition", l.Nonce, offset)
	}
	if want := now + int64(p.Visibility); l.Expiry != want {
		return 0, Violate("INV-05", "lease of offset %d expires at %d, expected %d", offset, l.Expiry, want)
	}
	if err := p.capped(offset, maxInFlight, maxAhead); err != nil {
		return 0, err
	}
	p.nonces[l.Nonce] = true
	p.leases[offset] = l
	e := p.at(offset)
	why := e.last
	e.last = Live
	if why == Live || why == Acked { // DEL-02, DEL-03
		return why, Violate("INV-15", "offset %d leased again without a cause, its last lease was %s", offset, why)
	}
	return why, nil
}

// capped checks the caps and that the lowest unresolved offset is the one handed out (INV-16).
func (p *Partition) capped(offset int64, maxInFlight, maxAhead int) error {
	if len(p.leases) >= maxInFlight {
		return Violate("INV-16", "offset %d leased beyond the cap of %d leases", offset, maxInFlight)
	}
	hole := p.lowest()
	if offset != hole { // ORD-08, CON-17
		return Violate("INV-16", "offset %d leased, the lowest unresolved one is %d", offset, hole)
	}
	if p.settled >= maxAhead && offset != p.committed+1 {
		return Violate("INV-16", "offset %d leased beyond the acked-ahead cap of %d, the hole is %d", offset, maxAhead, p.committed+1)
	}
	return nil
}

// lowest returns the lowest offset that is neither leased nor settled.
func (p *Partition) lowest() int64 {
	p.low = max(p.low, p.committed+1)
	for p.occupied(p.low) {
		p.low++
	}
	return p.low
}

// free ends the lease of an offset that is not settled.
func (p *Partition) free(offset int64, how Ending) {
	delete(p.leases, offset)
	p.at(offset).last = how
	p.low = min(p.low, offset)
}

func (p *Partition) occupied(offset int64) bool {
	_, leased := p.leases[offset]
	return leased || p.IsSettled(offset)
}

// Ack is told of an accepted ack and of the frontier that the shard reports after it.
func (p *Partition) Ack(offset, nonce, committed, now int64) error {
	if err := p.holds("ack", offset, nonce, now); err != nil {
		return err
	}
	delete(p.leases, offset)
	e := p.at(offset)
	e.last, e.acked = Acked, true
	p.settle(offset)
	if p.committed != committed { // INV-07: the frontier covers exactly the contiguous settled run
		return Violate("INV-07", "after the ack of %d the frontier is %d, expected %d", offset, committed, p.committed)
	}
	return nil
}

func (p *Partition) settle(offset int64) {
	p.mark(offset)
	p.advance()
}

// mark adds an offset to those that are settled above the frontier.
func (p *Partition) mark(o int64) {
	if e := p.at(o); !e.settled {
		e.settled = true
		p.settled++
	}
}

// advance moves the frontier over the contiguous settled run.
func (p *Partition) advance() {
	for p.of(p.committed+1).settled || p.skips[p.committed+1] {
		p.committed++
		p.pass(p.committed)
	}
}

// pass is told that an offset is not above the frontier any more.
func (p *Partition) pass(o int64) {
	if e := p.at(o); e.settled {
		e.settled = false
		p.settled--
	}
	delete(p.skips, o)
}

// holds checks that (offset, nonce) names a live lease (INV-06).
func (p *Partition) holds(op string, offset, nonce, now int64) error {
	l, ok := p.leases[offset]
	switch {
	case !ok:
		return Violate("INV-06", "%s of offset %d was accepted, nobody leases it (%s)", op, offset, p.of(offset).last)
	case l.Nonce != nonce:
		return Violate("INV-06", "%s of offset %d with nonce %d was accepted, the lease has nonce %d", op, offset, nonce, l.Nonce)
	case now >= l.Expiry:
		return Violate("INV-06", "%s of offset %d was accepted at %d, the lease expired at %d", op, offset, now, l.Expiry)
	}
	return nil
}

// Extend is told of an accepted extend (INF-16).
func (p *Partition) Extend(offset, nonce, expiry, now int64) error {
	if err := p.holds("extend", offset, nonce, now); err != nil {
		return err
	}
	if want := now + int64(p.Visibility); expiry != want {
		return Violate("INV-06", "extend of offset %d at %d re-armed the lease to %d, expected %d", offset, now, expiry, want)
	}
	p.leases[offset] = Lease{Nonce: nonce, Expiry: expiry}
	return nil
}

// End is told of a lease that was given up: a nack, or a give-back.
func (p *Partition) End(offset, nonce, now int64, how Ending) error {
	if how == Nacked {
		if err := p.holds("nack", offset, nonce, now); err != nil {
			return err
		}
	} else if l, ok := p.leases[offset]; !ok || l.Nonce != nonce {
		return Violate("INV-18", "offset %d given back under nonce %d, which does not hold it", offset, nonce)
	}
	p.free(offset, how)
	return nil
}

// Expire is told that a purge at now released count leases.
func (p *Partition) Expire(count int, now int64) error {
	released := 0
	for o, l := range p.leases { // order-free: counts and deletes
		if now >= l.Expiry {
			p.free(o, Expired)
			released++
		}
	}
	if released != count { // INV-06: released once at the current expiry, never earlier
		return Violate("INV-06", "a purge at %d released %d leases, %d had expired", now, count, released)
	}
	return nil
}

// Refuse is told of an ack, extend or nack that was answered "gone".
func (p *Partition) Refuse(offset, nonce, now int64) error {
	if l, ok := p.leases[offset]; ok && l.Nonce == nonce && now < l.Expiry {
		return Violate("INV-06", "a handle of offset %d was refused at %d, its lease lives until %d", offset, now, l.Expiry)
	}
	return nil
}

// Skip is told of an offset that can never be read, and of the frontier after it (LOG-11, INF-35).
func (p *Partition) Skip(offset, committed int64) error {
	if _, leased := p.leases[offset]; !leased {
		return Violate("INV-05", "offset %d was skipped without a reservation", offset)
	}
	e := p.at(offset)
	e.skipped, e.last = true, Skipped
	delete(p.leases, offset)
	p.skips[offset] = true
	p.advance()
	if p.committed != committed {
		return Violate("INV-07", "after offset %d was skipped the frontier is %d, expected %d", offset, committed, p.committed)
	}
	return nil
}

// Take is told that the committer read the live state; it must be the state.
func (p *Partition) Take(s *Snapshot) error {
	same := s.Committed == p.committed && len(s.Ahead) == p.settled
	for i := 0; same && i < len(s.Ahead); i++ {
		same = p.of(s.Ahead[i]).settled
	}
	if !same {
		return Violate("INV-07", "the committer took frontier %d with %d ahead, the shard has %d with %d", s.Committed, len(s.Ahead), p.committed, p.settled)
	}
	p.taken, p.cut = s, false
	return nil
}

// Taken returns the snapshot taken last.
func (p *Partition) Taken() *Snapshot { return p.taken }

// WroteWindow is told that the snapshot taken last is in the page cache.
func (p *Partition) WroteWindow() {
	if p.taken == nil {
		return
	}
	p.Cached = p.taken
	if !p.cut {
		p.whole = p.taken
	}
}

// IsWritten reports whether all that the live shard says was written into its files, or read from them, in this life.
func (p *Partition) IsWritten() bool {
	return p.open && p.whole != nil && p.whole.Committed == p.committed && len(p.whole.Ahead) == p.settled // neither ever falls
}

// WroteOut is told that a sync which began after the newest window write ended has succeeded.
func (p *Partition) WroteOut() { p.Durable = p.Cached }

// Crash is told that the process died; with power the page cache is gone too.
func (p *Partition) Crash(power bool) {
	p.endLife()
	if power {
		p.Cached = p.Durable
	}
	p.exact = nil
}

// Stop is told that the engine closed gracefully: everything is exact and durable (INV-10), but for what did not fit
// in the slot (INV-13).
func (p *Partition) Stop() {
	if p.open {
		p.exact = &Snapshot{Committed: p.committed, Ahead: p.AheadOffsets()}
		if t := p.taken; t != nil && p.cut && t.Committed == p.committed {
			p.exact.Ahead = p.exact.Ahead[:len(t.Ahead)]
		}
		p.Cached, p.Durable = p.exact, p.exact
	}
	p.endLife()
}

func (p *Partition) endLife() {
	for o := range p.leases { // order-free: each offset on its own
		p.at(o).last = CrashedLeased
	}
	p.leases, p.skips = map[int64]Lease{}, map[int64]bool{}
	p.open = false
	p.taken, p.cut, p.whole = nil, false, nil
}

// Reservable returns the offset that a reserve would hand out now, and false when there is none or a cap withholds it.
// Leases count until the owner has released them.
func (p *Partition) Reservable(maxInFlight, maxAhead int) (int64, bool) {
	if !p.open || len(p.leases) >= maxInFlight {
		return 0, false
	}
	hole := p.lowest()
	return hole, hole < p.HW && (p.settled < maxAhead || hole == p.committed+1)
}

// Drop is told that the shard is gone for good.
func (p *Partition) Drop() {
	p.endLife()
	p.exact = nil
}

// Idle is told that the shard was closed because nobody used it: it must leave nothing behind but what its files say, which the
// next one is seeded from.
func (p *Partition) Idle() error {
	if len(p.leases) > 0 {
		return Violate("INV-07", "a shard was closed with %d leases", len(p.leases))
	}
	if len(p.skips) > 0 { // its files do not say so: the next one skips them again
		return Violate("INV-07", "a shard was closed with %d skipped offsets above its frontier", len(p.skips))
	}
	if !p.IsWritten() {
		return Violate("INV-10", "a shard was closed whose frontier is %d with %d ahead, and its files do not say so", p.committed, p.settled)
	}
	p.Stop()
	return nil
}

// Resting returns the frontier that a shard had which is closed and whose files say all that it said, as after
// [Partition.Idle].
func (p *Partition) Resting() (int64, bool) {
	if p.open || p.exact == nil {
		return 0, false
	}
	return p.exact.Committed, true
}
