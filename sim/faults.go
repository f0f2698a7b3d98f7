package sim

import (
	"syscall"
)

// Op is a kind of file call.
type Op uint8

const (
	OpAny Op = iota // in ArmFault: any call that the fault can strike
	OpRead
	OpWrite
	OpSync    // of a file
	OpSyncDir // of a directory
	OpOpen    // opening, describing and listing what exists
	OpCreate  // of a file, directory or lock
	OpRename
	OpRemove
	OpResize // truncating and preallocating
	opCount
)

func (o Op) String() string {
	return [...]string{"any", "read", "write", "sync", "syncdir", "open", "create", "rename", "remove", "resize"}[o]
}

// Fault is a way in which a file call fails.
type Fault uint8

const (
	NoFault     Fault = iota
	FailEIO           // EIO; a write may have happened for a prefix
	FailNoSpace       // ENOSPC, nothing happened
	ShortWrite        // ENOSPC after a prefix
	SyncLost          // a file's sync answers EIO; the pages are clean and what was unsynced is gone (fsyncgate)
	SyncVisible       // the same, but readers see the new bytes until the pages are evicted
	LostWrite         // the write succeeds, and so will syncs, but never reaches the disk
	Misdirected       // the write succeeds, and so will syncs, but lands elsewhere in the file, or in another
	BitRot            // before a read a bit of what it will read is inverted on the disk
	Stall             // the call takes much longer, and succeeds
	NamesLost         // a directory's sync answers EIO, and no later one makes its names durable
	faultCount
)

// Faults lists the faults there are.
func Faults() (list []Fault) {
	for f := NoFault + 1; f < faultCount; f++ {
		list = append(list, f)
	}
	return list
}

// Ops lists the kinds of file calls.
func Ops() (list []Op) {
	for o := OpAny + 1; o < opCount; o++ {
		list = append(list, o)
	}
	return list
}

func (f Fault) String() string {
	return [...]string{"none", "EIO", "ENOSPC", "short write", "sync lost", "sync lost but visible",
		"lost write", "misdirected write", "bit rot", "stall", "names lost"}[f]
}

// Strikes reports whether the fault can hit an operation.
func (f Fault) Strikes(op Op) bool {
	switch f {
	case FailEIO, Stall:
		return true
	case FailNoSpace:
		return op == OpWrite || op == OpCreate || op == OpResize || op == OpRename
	case ShortWrite, LostWrite, Misdirected:
		return op == OpWrite
	case BitRot:
		return op == OpRead
	case SyncLost, SyncVisible:
		return op == OpSync
	case NamesLost:
		return op == OpSyncDir
	}
	return false
}

// FaultPlan says which file calls of a machine fail, in millionths of the calls each. The zero value is no faults.
type FaultPlan struct {
	ReadEIO     int
	OpenEIO     int // of opening, describing and listing
	BitRot      int // of reads
	WriteEIO    int
	ShortWrite  int
	NoSpace     int // of writes, creating, renaming and resizing
	LostWrite   int
	Misdirected int
	SyncEIO     int // what was unsynced stays so
	SyncLost    int
	SyncVisible int
	SyncDirEIO  int
	SyncDirLost int // of directories: what is unsynced stays so for good
	MetaEIO     int // of creating, renaming, removing and resizing
	// Only limits the plan to the paths for which it reports true; nil: all.
	Only func(path string) bool
}

// faults is what may go wrong on the disk of one machine.
type faults struct {
	plan  FaultPlan
	armed []armedFault
}

type armedFault struct {
	fault Fault
	op    Op
	path  string                 // "": any
	only  func(path string) bool // nil: any
	after int
}

// SetFaults replaces the plan.
func (m *Machine) SetFaults(p FaultPlan) { m.faults.plan = p }

// ArmFault lets the n-th call of a kind fail, counting from 1 and among the calls of that kind to path ("": to any path).
func (m *Machine) ArmFault(fault Fault, op Op, path string, n int) {
	if !m.w.fenced() {
		m.faults.armed = append(m.faults.armed, armedFault{fault, op, path, nil, n})
	}
}

// AimFault lets the next call of a kind fail, among those to paths for which only reports true.
func (m *Machine) AimFault(fault Fault, op Op, only func(path string) bool) {
	if !m.w.fenced() {
		m.faults.armed = append(m.faults.armed, armedFault{fault, op, "", only, 1})
	}
}

// Armed returns how many armed faults have not struck yet.
func (m *Machine) Armed() int { return len(m.faults.armed) }

// ClearFaults ends the plan and forgets armed faults.
func (m *Machine) ClearFaults() { m.faults = faults{} }

// next decides about one call, from the parts of its choice that start at 8.
func (f *faults) next(op Op, path string, choice uint32) Fault {
	due := NoFault
	for i := 0; i < len(f.armed); i++ {
		a := &f.armed[i]
		if a.op != OpAny && a.op != op || !a.fault.Strikes(op) || a.path != "" && a.path != path || a.only != nil && !a.only(path) {
			continue
		}
		a.after--
		if a.after <= 0 && due == NoFault {
			due = a.fault
			f.armed = append(f.armed[:i], f.armed[i+1:]...)
			i--
		}
	}
	if due != NoFault || f.plan.Only != nil && !f.plan.Only(path) {
		return due
	}
	return f.plan.draw(op, choice)
}

func (p *FaultPlan) draw(op Op, choice uint32) Fault {
	if choice == 0 {
		return NoFault
	}
	switch op {
	case OpRead:
		return oneOf(choice, FailEIO, p.ReadEIO, BitRot, p.BitRot)
	case OpWrite:
		if f := oneOf(choice, FailEIO, p.WriteEIO, ShortWrite, p.ShortWrite); f != NoFault {
			return f
		}
		if odds(part(choice, 10), p.NoSpace) {
			return FailNoSpace
		}
		return oneOf(part(choice, 11), LostWrite, p.LostWrite, Misdirected, p.Misdirected)
	case OpOpen:
		return oneOf(choice, FailEIO, p.OpenEIO, NoFault, 0)
	case OpSync:
		if odds(part(choice, 10), p.SyncEIO) {
			return FailEIO
		}
		return oneOf(choice, SyncLost, p.SyncLost, SyncVisible, p.SyncVisible)
	case OpSyncDir:
		return oneOf(choice, FailEIO, p.SyncDirEIO, NamesLost, p.SyncDirLost)
	case OpCreate, OpResize, OpRename:
		return oneOf(choice, FailEIO, p.MetaEIO, FailNoSpace, p.NoSpace)
	case OpRemove:
		return oneOf(choice, FailEIO, p.MetaEIO, NoFault, 0)
	}
	return NoFault
}

// oneOf draws one of two faults, or none, from parts 8 and 9 of a choice.
func oneOf(choice uint32, a Fault, ppmA int, b Fault, ppmB int) Fault {
	switch {
	case odds(part(choice, 8), ppmA):
		return a
	case odds(part(choice, 9), ppmB):
		return b
	}
	return NoFault
}

// fails reports whether a call struck by the fault answers an error.
func (f Fault) fails() bool {
	switch f {
	case FailEIO, FailNoSpace, ShortWrite, SyncLost, SyncVisible, NamesLost:
		return true
	}
	return false
}

// errno is the error of a fault that fails its call.
func (f Fault) errno() error {
	switch f {
	case FailNoSpace, ShortWrite:
		return syscall.ENOSPC
	}
	return syscall.EIO
}
