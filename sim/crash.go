package sim

import (
	"narad/env"
	"narad/sim/disk"
)

// CrashKind is how a machine goes down.
type CrashKind uint8

const (
	ProcessCrash CrashKind = iota // the process dies; the page cache survives
	PowerFailure                  // the machine loses power; the disk is reduced to what is durable and some of the rest
)

func (k CrashKind) String() string { return [...]string{"process crash", "power loss"}[k] }

// armedCrash strikes when its count of operations and points has passed.
type armedCrash struct {
	kind  CrashKind
	after int
	point string                 // "": at any call and point; otherwise only passes of this one count
	only  func(path string) bool // nil: any; otherwise only calls of kind op to these count
	op    Op
}

// CrashProcess kills the process of the machine, if one is alive. A task of that process does not return
// from this call.
func (m *Machine) CrashProcess() {
	if m.w.fenced() {
		return
	}
	m.crash(ProcessCrash)
	m.unwindCaller()
}

// PowerLoss kills the process, if one is alive, and reduces the disk to its durable state and a subset of the rest. It tells what
// was lost. A task of that process does not return from this call.
func (m *Machine) PowerLoss() disk.Report {
	if m.w.fenced() {
		return disk.Report{}
	}
	report := m.crash(PowerFailure)
	m.unwindCaller()
	return report
}

// ArmCrash lets the machine crash at its n-th file call or named point from now on, counting from 1, wherever that
// is: in a request, in recovery, or in the recovery after that. Several may be armed; each counts alone.
func (m *Machine) ArmCrash(kind CrashKind, n int) {
	if !m.w.fenced() {
		m.armed = append(m.armed, armedCrash{kind: kind, after: n})
	}
}

// ArmCrashAt is ArmCrash for the n-th pass of one named point, whenever that is.
func (m *Machine) ArmCrashAt(kind CrashKind, point string, n int) {
	if !m.w.fenced() {
		m.armed = append(m.armed, armedCrash{kind: kind, after: n, point: point})
	}
}

// AimCrash lets the machine crash at the next call of a kind to a path for which only reports true.
func (m *Machine) AimCrash(kind CrashKind, op Op, only func(path string) bool) {
	if !m.w.fenced() {
		m.armed = append(m.armed, armedCrash{kind: kind, after: 1, op: op, only: only})
	}
}

// Disarm forgets all armed crashes.
func (m *Machine) Disarm() { m.armed = nil }

// strike counts an operation of the live process p and reports whether an armed crash killed it.
func (p *Process) strike(what, name string) bool {
	m := p.machine
	if len(m.armed) == 0 || p.dead {
		return false
	}
	due := -1
	for i := range m.armed {
		if at := m.armed[i].point; at != "" && (what != "point" || at != name) {
			continue
		}
		if a := &m.armed[i]; a.only != nil && (what != a.op.String() || !a.only(name)) {
			continue
		}
		m.armed[i].after--
		if m.armed[i].after <= 0 && due < 0 {
			due = i
		}
	}
	if due < 0 {
		return false
	}
	kind, place := m.armed[due].kind, what+" "+name
	m.armed = append(m.armed[:due], m.armed[due+1:]...)
	m.w.stats.ArmedCrashes++
	count(&m.w.stats.CrashPlaces, place)
	if m.w.Logging() {
		m.w.Logf("%s: armed %v strikes at %s", p, kind, place)
	}
	m.crash(kind)
	return true
}

func (m *Machine) crash(kind CrashKind) (report disk.Report) {
	w := m.w
	p := m.process
	alive := p != nil && !p.dead
	if alive || kind == PowerFailure {
		count(&w.stats.CrashPhases, m.phase)
	}
	w.mix(uint64(w.now)<<8 | 'c')
	if alive {
		if kind == ProcessCrash {
			w.stats.ProcessCrashes++
		}
		if w.Logging() {
			w.Logf("%s: %v, phase %q, %d tasks", p, kind, m.phase, p.tasks.n)
		}
		m.interrupt(p, kind)
		p.die()
	}
	if kind == PowerFailure {
		report = m.losePower()
	}
	if m.OnCrash != nil && (alive || kind == PowerFailure) {
		m.OnCrash(kind, report)
	}
	return report
}

// interrupt lets the file calls that are under way happen, in whole or in part, or not at all (K3).
func (m *Machine) interrupt(p *Process, kind CrashKind) {
	for t := p.tasks.first; t != nil; t = t.next {
		if t.at != nil {
			t.at.Crashed[kind]++
			t.at = nil
		}
		if t.op.kind != OpAny {
			t.op.cut(m)
			t.op = pendingOp{}
		}
	}
}

func (m *Machine) losePower() disk.Report {
	w := m.w
	w.stats.PowerLosses++
	var before *disk.Disk
	if tr := w.options.Trace; tr != nil && tr.Power != nil {
		before = m.disk.Clone()
	}
	report := m.disk.PowerLossWith(w, m.config.Loss)
	if before != nil {
		w.options.Trace.Power(Power{env.Instant(w.now), m.name, before, m.disk.Clone()})
	}
	w.stats.lost(report)
	m.mono = clock{trueAnchor: w.now, ppm: m.mono.ppm}
	if shift := m.config.WallShift; shift > 0 {
		d := w.Duration(0, 2*shift)
		if d > shift {
			d = shift - d // choice 0 is no shift
		}
		m.wall.anchor += int64(d)
	}
	if m.pausedUntil > 0 {
		w.timers.disarm(&m.pause)
		m.resume()
	}
	if w.Logging() {
		w.Logf("%s: disk after power loss: %v", m.name, report)
	}
	return report
}

// unwindCaller ends the running task when the crash it asked for killed it.
func (m *Machine) unwindCaller() {
	if t := m.w.current; t != nil && t.killed {
		panic(killSignal{})
	}
}
