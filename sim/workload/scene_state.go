package workload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

// Scenes about consumer state.

// stateBeyondLog: the volume of a log holds less than that of its consumer state remembers. What is produced from now on is
// delivered (REC-03, AVL-16).
func stateBeyondLog(s *stage) {
	for range 2 {
		s.put(0)
		s.ack(s.must("INV-02", 0))
	}
	beyond := int64(2 + s.run.w.Choose(100))
	s.node.check.Meddled(s.key(0))
	s.restart(func() { s.setOffset(0, binary.BigEndian.AppendUint64(nil, uint64(beyond))) })
	s.put(0)
	s.ack(s.must("AVL-16", 0))
}

// shortOffset: a consumer.offset that is no number counts as none (COM-28, COM-32).
func shortOffset(s *stage) {
	for p := range s.spec.Partitions {
		s.put(p)
		s.stored(p, 1)
	}
	s.restart(func() {
		for p := range s.spec.Partitions {
			b := make([]byte, s.run.w.Choose(8))
			for i := range b {
				b[i] = byte(s.run.w.Choose(128))
			}
			s.setOffset(p, b)
		}
	})
	for p := range s.spec.Partitions {
		s.ack(s.must("COM-28", p))
	}
}

func (s *stage) setOffset(partition int, b []byte) {
	s.byHand(s.dir(partition), func(d vfs.Dir) error { return vfs.ReplaceFile(d, committer.OffsetFile, b) })
}

// wait is how long it takes until everything that was acked is durable, and more.
func (s *stage) wait() time.Duration { return 2*s.run.plan.Interval + 5*time.Second }

// directoryGone: a directory that is missing is not made again (COM-44, COM-45).
func directoryGone(s *stage) {
	h := s.moveAway()
	s.ack(h)
	s.run.e.Sleep(s.wait())
	if _, err := s.look(s.dir(0), "."); err == nil {
		s.run.fail("COM-44", "%s: the directory of a partition was moved away, and the node made it again", s.node.name)
	}
}

// directoryReplaced: acks of a partition are not written into a directory that replaced its own (COM-40).
func directoryReplaced(s *stage) {
	h := s.moveAway()
	s.byHand("data/topics/"+s.spec.Name, func(d vfs.Dir) error { return d.Mkdir("p00000") })
	s.ack(h)
	s.run.e.Sleep(s.wait())
	if _, err := s.look(s.dir(0), committer.AheadFile); err == nil {
		s.run.fail("COM-40", "%s: the directory of a partition was replaced, and its acks are in the new one", s.node.name)
	}
}

// moveAway takes the first message of the topic, and then its directory.
func (s *stage) moveAway() held {
	s.put(0)
	h := s.must("INV-02", 0)
	s.node.check.Meddled(s.key(0))
	s.byHand("data", func(d vfs.Dir) error { return d.Rename("topics/"+s.spec.Name+"/p00000", "moved-away") })
	return h
}

// look reads a file of the node's disk; of "." it only tells whether the directory is there.
func (s *stage) look(path, name string) ([]byte, error) {
	dir, err := disk.FS(s.node.m.Disk().Clone()).OpenRoot(path, false)
	if err != nil || name == "." {
		return nil, err
	}
	defer dir.Close()
	return vfs.ReadFile(dir, name, 1<<20)
}

// fileReplaced: a consumer.ahead whose descriptor was closed to make room is opened again only if it is still the same file (COM-43).
func fileReplaced(s *stage) {
	s.run.plan.Files = 1
	s.restart(nil)
	for range 2 {
		s.put(0)
	}
	s.put(1)
	s.put(2)
	first, second := s.must("INV-02", 0), s.must("INV-02", 0)
	s.ack(first)
	s.run.e.Sleep(s.wait())
	for p := 1; p < 3; p++ { // its descriptor goes to another partition
		s.ack(s.must("INV-02", p))
		s.run.e.Sleep(s.wait())
	}
	before, err := s.look(s.dir(0), committer.AheadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.node.check.Meddled(s.key(0))
	s.byHand(s.dir(0), func(d vfs.Dir) error { return vfs.ReplaceFile(d, committer.AheadFile, before) })
	s.ack(second)
	s.run.e.Sleep(s.wait())
	if after, err := s.look(s.dir(0), committer.AheadFile); err != nil || !bytes.Equal(before, after) {
		s.run.fail("COM-43", "%s: consumer.ahead was replaced while it was not open, and the node wrote into the new one (%v)", s.node.name, err)
	}
}

// lateTicks: a node that is slow says so, and says it again after a minute (COM-52, which the checker judges).
func lateTicks(s *stage) {
	l := calm()
	l.Write = sim.Range{Min: 150 * time.Millisecond, Max: 150 * time.Millisecond}
	l.Waits = 1_000_000
	s.node.m.SetLatency(l)
	for end := s.run.e.Now().Add(80 * time.Second); s.run.e.Now() < end; s.run.e.Sleep(6 * time.Second) {
		s.put(0)
		s.ack(s.must("INV-02", 0))
	}
}

// killedThenPowerLoss: what a killed process had in the page cache is durable an interval after the next start, though nobody acks
// anything.
func killedThenPowerLoss(s *stage) {
	for range 3 {
		s.put(0)
		acked := s.must("INV-02", 0)
		s.ack(acked)
		s.run.e.Sleep(250 * time.Millisecond) // a tick has come, a writeout perhaps not
		s.node.m.CrashProcess()
		s.boot()
		h, err := s.take(0, 0)
		if !errors.Is(err, engine.ErrEmpty) { // no tick had come
			if err == nil {
				s.ack(h)
			}
			continue
		}
		s.run.e.Sleep(s.wait())
		s.node.m.PowerLoss()
		s.boot()
		h, err = s.take(0, 0)
		switch {
		case err != nil:
		case h.handle.Offset > acked.handle.Offset: // the kill has doubled the message, and the copy was not there yet
			s.ack(h)
		default:
			s.run.fail("Q-08", "%s: the ack of offset %d survived a kill and was lost with the power, %v later", s.node.name, h.handle.Offset, s.wait())
		}
	}
}
