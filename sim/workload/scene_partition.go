package workload

import (
	"errors"
	"strings"
	"time"

	"narad/engine"
	"narad/segment"
	"narad/sim"
	"narad/vfs"
)

// Scenes in which one partition is in trouble and others are not.

// blockedPartition: of as many consumes as there are partitions, each begins at another one. Those that begin at a partition which
// can be opened get its message (CON-15).
func blockedPartition(s *stage) {
	for p := range s.spec.Partitions {
		s.put(p)
		s.stored(p, 1)
	}
	s.restart(nil)
	bad := s.run.w.Choose(s.spec.Partitions)
	if s.isOpen(bad) {
		return
	}
	dir := s.dir(bad)
	s.fails(sim.FaultPlan{OpenEIO: 1_000_000, Only: func(path string) bool { return strings.HasPrefix(path, dir) }})
	got := 0
	var last error
	for range s.spec.Partitions {
		asked := s.run.e.Now()
		_, err := s.take(engine.AnyPartition, 0)
		switch {
		case err == nil:
			got++
		case !ioError(err):
			s.client().refused(err, asked)
		default:
			last = err
		}
	}
	if got == 0 {
		s.run.fail("CON-15", "%s: partition %d cannot be opened, and of %d consumes none got what is in the others: %v", s.node.name, bad, s.spec.Partitions, last)
	}
}

// slowState: the consumer state of one partition is read for as long as a disk may hang. Nobody else waits for that (COM-50).
func slowState(s *stage) {
	for p := range s.spec.Partitions {
		s.put(p)
		s.stored(p, 1)
	}
	s.restart(nil)
	if s.isOpen(0) || s.isOpen(1) {
		return
	}
	const hangs = 40 * time.Second
	l := calm()
	l.Stall = sim.Range{Min: hangs, Max: hangs}
	s.node.m.SetLatency(l)
	path := s.dir(0) + "/consumer.ahead"
	s.node.m.AimFault(sim.Stall, sim.OpOpen, func(p string) bool { return p == path })
	slow := s.run.e.NewGroup()
	slow.Go("slow consume", func() { s.must("INV-02", 0) })
	s.run.e.Sleep(time.Second)
	asked := s.run.e.Now()
	s.must("COM-50", 1)
	if took := s.run.e.Now().Sub(asked); took > hangs/2 {
		s.run.fail("COM-50", "%s: a consume of a partition took %v, while the state of another one was being read", s.node.name, took)
	}
	slow.Wait()
}

// failingDestination: what is meant for a partition whose disk takes no writes waits, and nothing else does (BUG-146).
func failingDestination(s *stage) {
	dir := s.dir(0)
	s.fails(sim.FaultPlan{WriteEIO: 1_000_000, NoSpace: 1_000_000, Only: func(path string) bool { return strings.HasPrefix(path, dir) && isPartitionLog(path) }})
	for range 3 {
		s.put(0)
	}
	s.run.e.Sleep(2 * time.Second)
	s.put(1)
	s.ack(s.must("INV-31", 1))
	s.node.m.ClearFaults()
	for range 3 {
		s.ack(s.must("INV-02", 0))
	}
}

// grown: who was parked before the topic got a partition is served from it (PUMP-19, BUG-08).
func grown(s *stage) {
	parked := s.run.e.NewGroup()
	parked.Go("parked consume", func() { s.ack(s.must("INV-17", int(engine.AnyPartition))) })
	s.run.e.Sleep(3 * time.Second)
	more := s.spec.Partitions + 1
	if o := (&operator{node: s.node}); !o.alter(s.spec.Name, engine.TopicPatch{Partitions: &more}) {
		s.run.fail("AVL-01", "%s: a topic could not grow on a disk that works", s.node.name)
	}
	s.put(more - 1)
	parked.Wait()
}

// hungDestinations: commits that hang give up their slots, and go on when the disk does (WAL-19). There are more of them than slots.
func hungDestinations(s *stage) {
	for p := range s.spec.Partitions {
		s.put(p)
	}
	for p := range s.spec.Partitions {
		s.stored(p, 1)
	}
	const hangs = 4 * time.Second
	l := calm()
	l.Stall = sim.Range{Min: hangs, Max: hangs}
	s.node.m.SetLatency(l)
	for p := range s.spec.Partitions {
		dir := s.dir(p)
		s.node.m.AimFault(sim.Stall, sim.OpSync, func(path string) bool { return strings.HasPrefix(path, dir) && isPartitionLog(path) })
	}
	for p := range s.spec.Partitions {
		s.put(p)
	}
	for p := range s.spec.Partitions {
		s.stored(p, 2)
	}
	s.node.m.SetLatency(calm())
	for p := range s.spec.Partitions {
		s.put(p)
	}
	for p := range s.spec.Partitions {
		s.stored(p, 3)
	}
}

// lostWrite: the disk says that it has a write of a log, and has not. That is found when it is read back, before anybody can
// have the message, and it is stored again (LOG-02, LOG-05).
func lostWrite(s *stage) {
	s.put(0)
	s.stored(0, 1)
	s.ack(s.must("INV-02", 0))
	dir := s.dir(0)
	s.node.troubled = true
	s.node.m.SetEvict(1_000_000)
	s.node.m.AimFault(sim.LostWrite, sim.OpWrite, func(path string) bool { return strings.HasPrefix(path, dir) && isPartitionLog(path) })
	s.put(0)
	s.ack(s.must("LOG-05", 0))
	s.node.m.SetEvict(0)
}

// cutWhileStopped: a log that ends earlier than it did when it was closed is not opened (REC-07).
func cutWhileStopped(s *stage) {
	for i := range 3 {
		s.put(0)
		s.stored(0, i+1)
	}
	s.node.check.Meddled(s.key(0))
	s.restart(func() {
		s.byHand(s.dir(0), func(d vfs.Dir) error {
			if err := d.Remove(segment.BoundsFile); err != nil {
				return err
			}
			return cutLast(s, d)
		})
	})
	s.node.troubled = true
	h, err := s.take(0, 0)
	var corrupt *engine.CorruptError
	if !errors.As(err, &corrupt) {
		s.run.fail("REC-07", "%s: the log was cut while the node was stopped, and a consume was answered offset %d, %v", s.node.name, h.handle.Offset, err)
	}
}

// cutLast cuts the last frame off a log.
func cutLast(s *stage, d vfs.Dir) error {
	frames, err := framesOf(s.node.m.Disk(), s.key(0))
	if err != nil || len(frames) == 0 {
		return errors.Join(err, errors.New("no frames"))
	}
	last := frames[len(frames)-1]
	f, err := d.Open(last.path[strings.LastIndexByte(last.path, '/')+1:])
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(last.at), f.Sync(), f.Close())
}
