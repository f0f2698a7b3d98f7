package sim

import (
	"maps"

	"narad/sim/disk"
)

// Stats counts what happened in a world.
type Stats struct {
	Steps          int64
	Switches       int64 // steps that ran another task than the step before
	Tasks          int64 // started
	Starved        int   // times the policy set a task aside
	Boots          int
	ProcessCrashes int
	PowerLosses    int
	ArmedCrashes   int // among these two: those that ArmCrash timed
	Pauses         int
	WallJumps      int

	PartialWrites int         // writes under way at a crash of which a prefix happened, or all
	Losses        disk.Report // sums over all power losses
	DiskOps       int64
	Stalls        int            // syncs that took long
	CrashPhases   map[string]int // crashes by the phase that Machine.Mark set
	CrashPlaces   map[string]int // armed crashes by the operation or point they struck
	Points        map[string]PlaceCount
	Calls         map[CallPlace]PlaceCount // file calls
	Faults        map[FaultCount]int       // injected faults

	Sent       int64
	Delivered  int64
	Lost       int64
	Duplicated int64
	Reordered  int64 // overtook another message of their link
	Cut        int64 // at a partition, or no process ran at the destination
	Partitions int
}

// FaultCount is a kind of fault and the operation it struck, on a kind of file.
type FaultCount struct {
	Fault Fault
	CallPlace
}

// Stats returns the counters so far.
func (w *World) Stats() Stats {
	s := w.stats
	s.Steps = w.steps
	s.CrashPhases = maps.Clone(s.CrashPhases)
	s.CrashPlaces = maps.Clone(s.CrashPlaces)
	w.countPlaces(&s)
	s.Faults = maps.Clone(s.Faults)
	return s
}

func (s *Stats) fault(f Fault, at CallPlace) { count(&s.Faults, FaultCount{f, at}) }

func count[K comparable, V int | int64](m *map[K]V, key K) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key]++
}

func (s *Stats) lost(r disk.Report) {
	t := &s.Losses
	t.SectorsKept += r.SectorsKept
	t.SectorsLost += r.SectorsLost
	t.Garbage += r.Garbage
	t.TornWrites += r.TornWrites
	t.NamesKept += r.NamesKept
	t.NamesLost += r.NamesLost
	t.SizesKept += r.SizesKept
	t.SizesLost += r.SizesLost
}
