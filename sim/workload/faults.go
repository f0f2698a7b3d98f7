package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"narad/record"
	"narad/sim"
)

// diskFaults: for a while, now and then, the disk fails in a way that the contract survives. Each world draws some of the ways.
func diskFaults(w *sim.World, p *plan) {
	p.FaultGap = pick(w, 200*time.Millisecond, time.Second)
	p.Traffic = min(p.Traffic, 25*time.Second)
	switch w.Choose(8) {
	case 0: // commits fail under consumers that wait
		p.Faults = faultsNamed("syncs of partition logs", "writes of partition logs")
		p.FaultGap, p.Think, p.Wait = 200*time.Millisecond, 150*time.Millisecond, 4*time.Second
		p.Consumers = 4
		p.Habits.Hold, p.Habits.Forget = 0, 0
		return
	case 1: // so does the ingress log
		p.Faults = faultsNamed("syncs of the ingress log", "writes of the ingress log", "syncs of the ingress directory")
		p.FaultGap = 200 * time.Millisecond
		p.WALSegment, p.Size = pick[int64](w, 1<<14, 1<<14, 1<<16), pick(w, 300, 3000)
		return
	case 2: // writeouts fail
		p.Faults = faultsNamed("syncs of consumer state")
		p.FaultGap = 200 * time.Millisecond
		p.Interval = pick(w, 100*time.Millisecond, 300*time.Millisecond)
		return
	case 3: // so do the files that are written when a node stops, when a partition is closed, and hardly else
		p.Faults = faultsNamed(kindOffset, kindBounds, "other names")
		p.FaultGap, p.IdleAfter, p.Aimed, p.FaultyStarts = 200*time.Millisecond, time.Second, 3, true
		p.Segment = pick[int64](w, 1<<14, 1<<12)
		return
	}
	p.Faults = drawFaults(w)
	p.Aimed = pick(w, 3, 10, 20)
	p.FaultyStarts = w.Choose(2) == 1
	if w.Choose(2) == 1 { // the metastore writes when topics change
		p.Churn = pick(w, time.Second, 300*time.Millisecond)
		p.IdleAfter = pick(w, 0, time.Second)
		p.Segment = pick[int64](w, 1<<14, 1<<12)
	}
}

// anyFault: every way to fail, at every kind of file, in a world that makes, closes and removes as many of them as it can.
func anyFault(w *sim.World, p *plan) {
	p.Faults = nil
	for i := range faultKinds {
		p.Faults = append(p.Faults, i)
	}
	p.FaultGap, p.Aimed, p.FaultyStarts = 200*time.Millisecond, 20, true
	p.Traffic = min(p.Traffic, 25*time.Second)
	p.Churn = pick(w, time.Second, 300*time.Millisecond)
	p.IdleAfter = pick(w, time.Second, 0)
	p.Segment, p.WALSegment = pick[int64](w, 1<<14, 1<<12), pick[int64](w, 1<<14, 1<<16)
}

func faultsNamed(names ...string) (kinds []int) {
	for i, k := range faultKinds {
		if slices.Contains(names, k.name) {
			kinds = append(kinds, i)
		}
	}
	return kinds
}

// drawFaults draws which kinds of faults a world has: each or not, at least one.
func drawFaults(w *sim.World) (kinds []int) {
	for i := range faultKinds {
		if w.Choose(3) == 0 {
			kinds = append(kinds, i)
		}
	}
	if len(kinds) == 0 {
		kinds = append(kinds, w.Choose(len(faultKinds)))
	}
	return kinds
}

// fewFiles: many partitions share very few descriptors of consumer.ahead, and paths fail to be looked up now and then.
func fewFiles(w *sim.World, p *plan) {
	p.Files = 1 + w.Choose(2)
	p.LookupErrors = true
	if w.Choose(5) == 0 {
		p.Arm = primedPoint
		p.LookupErrors = false
	}
	p.Interval = pick(w, 300*time.Millisecond, time.Second, 3*time.Second)
	p.Producers = 2 + w.Choose(3)
	p.Consumers = 3 + w.Choose(6)
	p.Think = pick(w, 60*time.Millisecond, 150*time.Millisecond)
	p.Traffic = min(p.Traffic, 15*time.Second)
	for i := range p.Topics {
		p.Topics[i].Partitions = 4 + w.Choose(8)
	}
}

// faultKind is a way for the disk of a node to fail.
type faultKind struct {
	name string
	only func(path string) bool
	plan func(rate int) sim.FaultPlan
}

func isConsumerState(path string) bool { return strings.Contains(path, "/consumer.") }

func isIngressLog(path string) bool { return strings.HasSuffix(path, ".wal") }

// isIngressDir tells the one directory of which a failed sync may lose names for good: all changes of names in it are made and synced under one
// lock. In a partition's directory the sync that fails may be another one's.
func isIngressDir(path string) bool { return strings.HasSuffix(path, "/ingress/produce") }

func isPartitionDir(path string) bool {
	at := strings.LastIndex(path, "/p")
	return at > 0 && strings.Contains(path, "/topics/") && !strings.Contains(path[at+1:], "/") && len(path)-at == 7
}

func isCheckpoint(path string) bool { return FileKind(path) == kindCheckpoint }

func isMetastore(path string) bool { return FileKind(path) == kindMetastore }

func isIndex(path string) bool { return FileKind(path) == kindIndex }

func isOther(path string) bool { return FileKind(path) == kindOther }

func anything(string) bool { return true }

// writeFaults fails writes, and the calls that change names and sizes.
func writeFaults(rate int) sim.FaultPlan {
	return sim.FaultPlan{WriteEIO: rate, ShortWrite: rate, MetaEIO: rate}
}

func syncFaults(rate int) sim.FaultPlan {
	return sim.FaultPlan{SyncLost: rate, SyncVisible: rate, SyncEIO: rate / 3}
}

// updateFaults fails what a small file needs that is replaced or updated in place.
func updateFaults(rate int) sim.FaultPlan {
	p := syncFaults(rate / 3)
	p.WriteEIO, p.ShortWrite, p.MetaEIO, p.SyncDirEIO, p.NoSpace = rate/3, rate/3, rate/3, rate/3, rate/3
	return p
}

var faultKinds = []faultKind{
	{"syncs of consumer state", isConsumerState, syncFaults},
	{"writes of consumer state", isConsumerState, writeFaults},
	{"syncs of consumer directories", isPartitionDir, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncDirEIO: rate} }},
	{"reads", anything, func(rate int) sim.FaultPlan { return sim.FaultPlan{ReadEIO: rate / 10} }},
	{"lookups", anything, func(rate int) sim.FaultPlan { return sim.FaultPlan{OpenEIO: rate / 10} }},
	{"syncs of partition logs", isPartitionLog, syncFaults},
	{"writes of partition logs", isPartitionLog, writeFaults},
	{"syncs of the ingress log", isIngressLog, syncFaults},
	{"writes of the ingress log", isIngressLog, writeFaults},
	{"syncs of the ingress directory", isIngressDir, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncDirEIO: rate / 3, SyncDirLost: rate} }},
	{"the checkpoint", isCheckpoint, updateFaults},
	{"the metastore", isMetastore, updateFaults},
	{"indexes", isIndex, updateFaults},
	{"other names", isOther, updateFaults},
	{kindOffset, func(path string) bool { return FileKind(path) == kindOffset }, updateFaults},
	{kindBounds, func(path string) bool { return FileKind(path) == kindBounds }, updateFaults},
	{"directories", anything, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncDirEIO: rate, MetaEIO: rate} }},
	{"a full disk", anything, func(rate int) sim.FaultPlan { return sim.FaultPlan{NoSpace: max(rate, 300_000)} }},
}

// faultWindows lets the disk fail until the traffic ends, one way at a time. In some worlds faults strike while the node
// serves only, in others also while it starts, which may then be refused, and stops. A node whose ingress log has failed is restarted,
// as an operator would, since only that clears it (WAL-11).
func (n *node) faultWindows() {
	r := n.run
	for {
		r.e.Sleep(r.duration(r.plan.FaultGap/10, r.plan.FaultGap))
		if r.stopping || r.draining {
			return
		}
		starts := r.plan.FaultyStarts
		if !starts && (n.engine == nil || n.stopping) {
			continue
		}
		kind := faultKinds[r.plan.Faults[r.w.Choose(len(r.plan.Faults))]]
		plan := kind.plan(pick(r.w, 30_000, 300_000, 1_000_000))
		active := func(string) bool { return starts || n.engine != nil && !n.stopping }
		plan.Only = func(path string) bool { return active(path) && kind.only(path) }
		n.troubled, n.failing = true, true
		n.check.Goal("faults: " + kind.name)
		n.m.SetFaults(plan)
		for range r.plan.Aimed {
			n.aim()
		}
		if percent(r.w, 30) {
			n.failAndDie(func(path string) bool { return active(path) && kind.only(path) })
		}
		if starts && (kind.name == kindOffset || r.w.Choose(3) == 0) { // consumer.offset is written when a node stops, and hardly else
			for range 2 {
				n.aimAt(kindOffset, pick(r.w, sim.OpWrite, sim.OpSync, sim.OpCreate, sim.OpRename, sim.OpRemove))
			}
			n.stopGracefully()
		}
		r.e.Sleep(r.duration(0, 2*time.Second))
		if r.draining {
			return
		}
		if r.plan.Aimed > 0 {
			n.m.SetFaults(sim.FaultPlan{})
		} else {
			n.m.ClearFaults() // also what was to fail with a death behind it, and was not met
		}
		n.failing = r.plan.Aimed > 0 // what was aimed at strikes whenever it is met
		if n.engine != nil && n.check.Latched() {
			r.e.Sleep(r.pause(2 * time.Second))
			if n.engine != nil && !r.stopping {
				n.m.CrashProcess()
			}
		}
	}
}

// aimKinds are the kinds of files to aim at, the rarest more often.
var aimKinds = append([]string{kindOffset, kindOffset, kindOffset, kindIndex, kindIndex, kindCheckpoint}, fileKinds...)

// opsOn returns the calls that a kind of file sees.
func opsOn(kind string) []sim.Op {
	switch kind {
	case kindDir:
		return []sim.Op{sim.OpOpen, sim.OpCreate, sim.OpRemove, sim.OpSyncDir}
	case kindOffset, kindAhead:
		return []sim.Op{sim.OpRead, sim.OpWrite, sim.OpSync, sim.OpOpen, sim.OpCreate, sim.OpRename, sim.OpRemove}
	case kindBounds:
		return []sim.Op{sim.OpRead, sim.OpWrite, sim.OpSync, sim.OpOpen, sim.OpCreate, sim.OpRemove}
	case kindIndex:
		return []sim.Op{sim.OpRead, sim.OpWrite, sim.OpOpen, sim.OpCreate, sim.OpRemove}
	case kindMetastore, kindOther:
		return []sim.Op{sim.OpRead, sim.OpWrite, sim.OpSync, sim.OpOpen, sim.OpCreate, sim.OpRename, sim.OpRemove, sim.OpSyncDir}
	}
	return []sim.Op{sim.OpRead, sim.OpWrite, sim.OpSync, sim.OpOpen, sim.OpCreate, sim.OpRename, sim.OpRemove, sim.OpResize}
}

// aim lets the next call of a drawn kind to a drawn kind of file fail, in a drawn way, or be cut by a crash. By rates alone the rarest
// calls would hardly ever be hit.
func (n *node) aim() {
	w := n.run.w
	if n.m.Armed() < 40 {
		kind := aimKinds[w.Choose(len(aimKinds))]
		ops := opsOn(kind)
		n.aimAt(kind, ops[w.Choose(len(ops))])
	}
}

func (n *node) aimAt(kind string, op sim.Op) {
	w := n.run.w
	if percent(w, 15) && n.run.mayStrike() {
		n.m.AimCrash(sim.CrashKind(w.Choose(2)), op, func(path string) bool { return FileKind(path) == kind })
		return
	}
	var ways []sim.Fault
	for _, f := range []sim.Fault{sim.FailEIO, sim.FailNoSpace, sim.ShortWrite, sim.SyncLost, sim.SyncVisible, sim.Stall} {
		if f.Strikes(op) {
			ways = append(ways, f)
		}
	}
	way := ways[w.Choose(len(ways))]
	dies := (way == sim.SyncLost || way == sim.SyncVisible) && percent(w, 50) // what a failed sync left is the next life's to find out
	n.m.AimFault(way, op, func(path string) bool {
		hit := (n.run.plan.FaultyStarts || n.engine != nil && !n.stopping) && FileKind(path) == kind
		if hit && dies && n.run.mayStrike() {
			n.m.ArmCrash(sim.ProcessCrash, 1)
		}
		return hit
	})
}

// failAndDie lets the next sync of a file fail so that no later one makes up for it, and kills the process right behind it: the next life
// finds what looks written, and counts as clean (D4).
func (n *node) failAndDie(only func(path string) bool) {
	way := sim.SyncVisible
	if n.run.w.Choose(4) == 0 {
		way = sim.SyncLost
	}
	n.m.AimFault(way, sim.OpSync, func(path string) bool {
		hit := only(path)
		if hit && n.run.mayStrike() {
			n.m.ArmCrash(sim.ProcessCrash, 1)
			if n.run.plan.FaultyStarts { // a read that fails while a log is opened is not its end
				n.m.AimFault(sim.FailEIO, sim.OpRead, isIngressLog)
				n.m.AimFault(sim.FailEIO, sim.OpRead, isPartitionLog)
			}
		}
		return hit
	})
}

// lookupErrors lets the opening of a path of consumer state, or of its directory, fail now and then (COM-47).
func (n *node) lookupErrors() {
	r := n.run
	for !r.stopping {
		r.e.Sleep(r.pause(300 * time.Millisecond))
		if n.engine == nil || n.stopping || r.stopping {
			continue
		}
		for range 3 {
			spec := r.plan.Topics[r.w.Choose(len(r.plan.Topics))]
			name := fmt.Sprintf("data/topics/%s/p%05d", spec.Name, r.w.Choose(spec.Partitions))
			if r.w.Choose(2) == 0 {
				name += "/consumer.ahead"
			}
			n.m.ArmFault(sim.FailEIO, sim.OpOpen, name, 1+r.w.Choose(3))
		}
		r.e.Sleep(r.duration(0, time.Second))
		n.m.ClearFaults()
	}
}

// ioError reports whether an answer is that of a disk that fails. A frame whose sync failed can be gone between two reads of one
// recovery, when its pages are evicted: that attempt fails with a checksum or a magic, and the next finds the end of the log before it.
func ioError(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, record.ErrChecksum) || errors.Is(err, record.ErrMagic)
}
