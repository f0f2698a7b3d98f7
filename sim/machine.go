package sim

import (
	"fmt"
	"time"

	"narad/env"
	"narad/sim/disk"
)

// MachineConfig describes a machine.
type MachineConfig struct {
	Personality disk.Personality
	RatePPM     int           // how much faster than true time its clocks run, in millionths
	WallOffset  time.Duration // of its wall clock at the start
	WallShift   time.Duration // a power loss moves the wall clock by up to this much either way
	Latency     Latency       // of its disk; the zero value is DefaultLatency
	Faults      FaultPlan     // of its disk
	Loss        disk.Loss     // how a power loss treats its disk
	Writeback   int           // ppm of writes after which the kernel writes some dirty pages back
	Evict       int           // ppm of reads before which the pages of the file are evicted
}

// Latency says how long the calls of a disk take, in true time.
type Latency struct {
	Read   Range // a read that does not come from the page cache
	Write  Range // a write that waits, for example for dirty pages to be written back
	Meta   Range // creating, renaming, removing, listing
	Sync   Range // of a file or directory
	Waits  int   // ppm of reads, writes and metadata calls that take more than no time
	Stalls int   // ppm of all calls that take Stall longer
	Stall  Range
}

// DefaultLatency is a plain solid-state disk with rare stalls.
func DefaultLatency() Latency {
	return Latency{
		Read:   Range{5 * time.Microsecond, 200 * time.Microsecond},
		Write:  Range{2 * time.Microsecond, 50 * time.Microsecond},
		Meta:   Range{5 * time.Microsecond, 100 * time.Microsecond},
		Sync:   Range{100 * time.Microsecond, 5 * time.Millisecond},
		Waits:  250_000,
		Stalls: 200,
		Stall:  Range{20 * time.Millisecond, 3 * time.Second},
	}
}

// Machine has clocks, a disk, a name in the network and at most one live process.
type Machine struct {
	// OnCrash, when set, is told of every crash after it happened. It must not park.
	OnCrash func(CrashKind, disk.Report)
	// OnRemove, when set, is told of every file and directory that a process of the machine has removed, at the instant at which
	// its name is gone. It must not park.
	OnRemove func(path string)

	w           *World
	id          int
	name        string
	config      MachineConfig
	disk        *disk.Disk
	process     *Process // the latest; nil before the first boot
	boots       int
	mono        clock // restarts when the power is lost
	wall        clock // shows nanoseconds since epoch
	pausedUntil int64
	stalled     []*task // runnable but for the pause
	pause       timer
	armed       []armedCrash
	faults      faults
	phase       string
}

// Machine adds a machine to the world.
func (w *World) Machine(name string, config MachineConfig) *Machine {
	if _, taken := w.network.nodes[name]; taken {
		panic(fmt.Sprintf("sim: two machines named %q", name))
	}
	if config.Latency == (Latency{}) {
		config.Latency = DefaultLatency()
	}
	m := &Machine{w: w, id: len(w.machines) + 1, name: name, config: config}
	m.mono = clock{trueAnchor: w.now, ppm: int64(config.RatePPM)}
	m.wall = clock{trueAnchor: w.now, anchor: w.now + int64(config.WallOffset), ppm: int64(config.RatePPM)}
	m.pause = timer{kind: timerResume, m: m}
	m.faults.plan = config.Faults
	m.disk = disk.New(config.Personality)
	m.disk.Now = func() int64 { return int64(m.Wall()) }
	w.machines = append(w.machines, m)
	w.network.nodes[name] = nil
	return m
}

// Name returns the name of the machine in the network.
func (m *Machine) Name() string { return m.name }

// Disk returns the disk of the machine.
func (m *Machine) Disk() *disk.Disk { return m.disk }

// Rot inverts a bit of a file on the disk, for good, counted from its start. The path is for the counters.
func (m *Machine) Rot(path string, file disk.Ino, bit int64) {
	m.w.stats.fault(BitRot, CallPlace{m.w.kindOf(path).name, OpRead})
	m.disk.FlipBit(file, bit)
}

// Process returns the process that runs on the machine or ran last, nil before the first boot.
func (m *Machine) Process() *Process { return m.process }

// SetLatency changes how long the calls of the disk take from now on.
func (m *Machine) SetLatency(l Latency) { m.config.Latency = l }

// SetEvict changes before how many reads, in millionths, the pages of the file go.
func (m *Machine) SetEvict(ppm int) { m.config.Evict = ppm }

// Mark names what the machine is doing, for the counters of crashes by phase.
func (m *Machine) Mark(phase string) {
	if !m.w.fenced() {
		m.phase = phase
	}
}

// Boot starts a process whose first task is main. The machine must not run one.
func (m *Machine) Boot(main func(e *env.Env)) *Process {
	w := m.w
	if m.process != nil && !m.process.dead {
		panic("sim: " + m.name + " boots although it runs " + m.process.String())
	}
	m.boots++
	p := &Process{w: w, machine: m, name: m.name, boot: m.boots, mono: &m.mono}
	p.origin = int64(scramble(hashString(m.name)+uint64(m.boots)) % uint64(time.Hour))
	p.env = env.Simulated((*backend)(p), &fileSystem{p})
	if w.fenced() {
		p.dead = true
		return p
	}
	m.process = p
	w.network.join(p)
	w.stats.Boots++
	if w.Logging() {
		w.Logf("%s: boot", p)
	}
	w.spawn(p, "main", func() { main(p.env) })
	return p
}

// Pause stalls the machine: none of its tasks runs for d. Its clocks go on.
func (m *Machine) Pause(d time.Duration) {
	w := m.w
	if w.fenced() || d <= 0 {
		return
	}
	w.stats.Pauses++
	if w.Logging() {
		w.Logf("%s: pause for %v", m.name, d)
	}
	m.pausedUntil = max(m.pausedUntil, w.now+int64(d))
	w.timers.disarm(&m.pause)
	w.timers.arm(&m.pause, m.pausedUntil)
	w.ready.filter(func(t *task) bool {
		if t.proc.machine != m {
			return true
		}
		t.state = stateStalled
		m.stalled = append(m.stalled, t)
		return false
	})
	if t := w.current; t != nil && t.proc.machine == m {
		w.reschedule(t)
	}
}

// resume ends a pause.
func (m *Machine) resume() {
	m.pausedUntil = 0
	stalled := m.stalled
	m.stalled = nil
	for _, t := range stalled {
		m.w.enqueue(t)
	}
}
