package workload

import (
	"errors"
	"slices"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/metastore"
	"narad/record"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/wal"
)

// Worlds whose disk breaks a rule that the contract rests on. What it took cannot be given back; so a node may refuse to start or to
// open a partition, with a typed error, and such a world ends there. Until then, and where nothing is refused, everything is checked.

// garbage: a sector that a power loss caught before it had durable contents may hold anything (against rule D5).
func garbage(w *sim.World, p *plan) {
	p.Garbage = true
	p.Size = pick(w, 300, 3000, 20000) // records of several sectors
	p.Think = pick(w, 20*time.Millisecond, 100*time.Millisecond)
	p.Traffic = min(p.Traffic, 20*time.Second)
}

// lies: the disk acknowledges a write, and its sync, and loses it or puts it elsewhere. Messages may be lost then; what must hold
// all the same is what memory and checksums vouch for: no lease is given twice, no ack is taken that should not be, nothing is
// delivered that nobody sent, no task hangs or panics.
func lies(w *sim.World, p *plan) {
	p.Lies = pick(w, 10, 300)
	p.Evict = pick(w, 1000, 50_000)
	p.Think = pick(w, 20*time.Millisecond, 100*time.Millisecond)
	p.Traffic = min(p.Traffic, 20*time.Second)
	p.Segment = pick[int64](w, 1<<14, 1<<12)
}

func (p plan) loss() disk.Loss { return disk.Loss{TornGarbage: p.Garbage, Fresh: true} }

func (p plan) machineFaults() sim.FaultPlan {
	if p.Lies > 0 {
		return sim.FaultPlan{LostWrite: p.Lies, Misdirected: p.Lies, BitRot: p.Lies / 10}
	}
	return sim.FaultPlan{ReadEIO: p.ReadErrors, Only: isPartitionLog}
}

// isDamage reports whether an error is the typed one of files that are not what the engine wrote.
func isDamage(err error) bool {
	return isA[*engine.CorruptError](err) || isA[*wal.CorruptError](err) || isA[*segment.CorruptError](err) || isA[*segment.DamageError](err) ||
		isA[*metastore.CorruptError](err) || isA[*committer.CorruptError](err) || errors.Is(err, record.ErrChecksum)
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// conceded ends the world when an error says, typed, that files are damaged, and the disk did damage some.
func (n *node) conceded(err error) bool {
	if !n.garbage && !n.run.lied() || !isDamage(err) {
		return false
	}
	n.check.Goal("refused, as a disk broke its rules")
	n.run.concede()
	return true
}

// concede ends the world: what the disk took keeps the rest from being judged.
func (r *run) concede() {
	r.over = true
	r.w.Stop()
}

var untrue = []sim.Fault{sim.LostWrite, sim.Misdirected, sim.BitRot}

// lieLoop lets the disk lie about drawn kinds of files, and stops the node now and then.
func (n *node) lieLoop() {
	r := n.run
	for !r.stopping {
		r.e.Sleep(r.pause(300 * time.Millisecond))
		if r.stopping {
			return
		}
		if n.m.Armed() > 20 {
			continue
		}
		if r.w.Choose(6) == 0 && n.engine != nil { // some files are hardly written but then
			n.lieAbout(kindOffset)
			n.lieAbout(kindOther)
			n.stopGracefully()
			continue
		}
		n.lieAbout(aimKinds[r.w.Choose(len(aimKinds))])
	}
}

// lieAbout lets the disk lose or misplace the next write to a kind of file, or invert a bit in the next read of one.
func (n *node) lieAbout(kind string) {
	fault, op := untrue[n.run.w.Choose(len(untrue))], sim.OpWrite
	if fault == sim.BitRot {
		op = sim.OpRead
	}
	n.m.AimFault(fault, op, func(path string) bool { return FileKind(path) == kind })
}

// lied reports whether the disk lost or misplaced a write, or a bit of it turned over.
func (r *run) lied() bool {
	if r.plan.Lies == 0 {
		return false
	}
	s := r.w.Stats()
	for at := range s.Faults { // order-free: is there one
		if slices.Contains(untrue, at.Fault) {
			return true
		}
	}
	return false
}

// vouched are the invariants that no disk may break.
var vouched = []string{"INV-01", "INV-05", "INV-06", "INV-16", "INV-17", "INV-18", "INV-19", "INV-28"}

// forgive returns the error of a run without what a disk that lied excuses.
func (r *run) forgive(err error) error {
	var v *model.Violation
	if !errors.As(err, &v) || !r.lied() {
		return err
	}
	if slices.Contains(vouched, v.Invariant) {
		return err
	}
	r.nodes[0].check.Goal("a disk that lied was believed")
	r.over = true
	return nil
}
