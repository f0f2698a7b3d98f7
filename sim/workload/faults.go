package workload

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"narad/record"
	"narad/sim"
)

// diskFaults: for a while, now and then, the disk fails in a way that the contract survives.
func diskFaults(w *sim.World, p *plan) {
	p.FaultGap = pick(w, 200*time.Millisecond, time.Second, 3*time.Second)
	p.Traffic = min(p.Traffic, 25*time.Second)
}

// fewFiles: many partitions share very few descriptors of consumer.ahead, and paths fail to be looked up now and then.
func fewFiles(w *sim.World, p *plan) {
	p.Files = 1 + w.Choose(3)
	p.LookupErrors = w.Choose(3) > 0
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

func isPartitionDir(path string) bool {
	at := strings.LastIndex(path, "/p")
	return at > 0 && strings.Contains(path, "/topics/") && !strings.Contains(path[at+1:], "/") && len(path)-at == 7
}

func isStored(path string) bool {
	return isConsumerState(path) || isPartitionLog(path) || isIngressLog(path)
}

var faultKinds = []faultKind{
	{"syncs of consumer state", isConsumerState, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncLost: rate, SyncVisible: rate} }},
	{"writes of consumer state", isConsumerState, func(rate int) sim.FaultPlan {
		return sim.FaultPlan{WriteEIO: rate, ShortWrite: rate, MetaEIO: rate}
	}},
	{"syncs of consumer directories", isPartitionDir, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncDirEIO: rate} }},
	{"reads", func(path string) bool { return isConsumerState(path) || isPartitionLog(path) }, func(rate int) sim.FaultPlan { return sim.FaultPlan{ReadEIO: rate / 10} }},
	{"syncs of partition logs", isPartitionLog, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncLost: rate, SyncVisible: rate} }},
	{"writes of partition logs", isPartitionLog, func(rate int) sim.FaultPlan {
		return sim.FaultPlan{WriteEIO: rate, ShortWrite: rate, MetaEIO: rate}
	}},
	{"syncs of the ingress log", isIngressLog, func(rate int) sim.FaultPlan { return sim.FaultPlan{SyncLost: rate, SyncVisible: rate} }},
	{"a full disk", isStored, func(rate int) sim.FaultPlan { return sim.FaultPlan{NoSpace: max(rate, 300_000)} }},
}

// faultWindows lets the disk fail until the traffic ends, one way at a time. Faults strike while the node serves: what cannot be
// read at a start is a node that does not start, which is the operator's to repair. A node whose ingress log has failed is
// restarted, as an operator would, since only that clears it (WAL-11).
func (n *node) faultWindows() {
	r := n.run
	for {
		r.e.Sleep(r.duration(r.plan.FaultGap/10, r.plan.FaultGap))
		if r.stopping || r.draining {
			return
		}
		if n.engine == nil || n.stopping {
			continue
		}
		kind := faultKinds[r.w.Choose(len(faultKinds))]
		plan := kind.plan(pick(r.w, 30_000, 300_000, 1_000_000))
		plan.Only = func(path string) bool { return n.engine != nil && !n.stopping && kind.only(path) }
		n.troubled, n.failing = true, true
		n.check.Goal("faults: " + kind.name)
		n.m.SetFaults(plan)
		r.e.Sleep(r.duration(0, 2*time.Second))
		if r.draining {
			return
		}
		n.m.SetFaults(sim.FaultPlan{})
		n.failing = false
		if n.engine != nil && n.check.Latched() {
			r.e.Sleep(r.pause(2 * time.Second))
			if n.engine != nil && !r.stopping {
				n.m.CrashProcess()
			}
		}
	}
}

// lookupErrors lets the opening of a path of consumer state, or of its directory, fail now and then (COM-47).
func (n *node) lookupErrors() {
	r := n.run
	for !r.stopping {
		r.e.Sleep(r.pause(600 * time.Millisecond))
		if n.engine == nil || n.stopping || r.stopping {
			continue
		}
		spec := r.plan.Topics[r.w.Choose(len(r.plan.Topics))]
		name := fmt.Sprintf("data/topics/%s/p%05d", spec.Name, r.w.Choose(spec.Partitions))
		if r.w.Choose(2) == 0 {
			name += "/consumer.ahead"
		}
		n.m.ArmFault(sim.FailEIO, sim.OpOpen, name, 1+r.w.Choose(3))
		r.e.Sleep(r.duration(0, time.Second))
		n.m.ClearFaults()
	}
}

// ioError reports whether an answer is that of a disk that fails. A frame whose sync failed can be gone between two reads of one
// recovery, when its pages are evicted: that attempt fails with a checksum, and the next finds the end of the log before it.
func ioError(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, record.ErrChecksum)
}
