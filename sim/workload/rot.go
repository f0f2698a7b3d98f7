package workload

import (
	"fmt"
	"io"
	"strings"
	"time"

	"narad/engine"
	"narad/record"
	"narad/sim"
	"narad/sim/check"
	"narad/sim/disk"
	"narad/vfs"
)

// rot: now and then a bit of a stored frame turns over on the disk, for good. It costs the messages of that frame and no
// others (LOG-11, LOG-12).
func rot(w *sim.World, p *plan) {
	p.Rot = pick(w, 300*time.Millisecond, time.Second, 3*time.Second)
	p.Segment = pick[int64](w, 64<<20, 1<<14, 1<<12)
	p.Think = pick(w, 20*time.Millisecond, 100*time.Millisecond)
	p.Producers = 1 + w.Choose(3)
	p.Consumers = 1 + w.Choose(3)
	p.Pause = pick(w, 100*time.Millisecond, 2*time.Second) // something has to lie there for a while
	p.Traffic = min(p.Traffic, 15*time.Second)
	p.Habits.Replay = 20
	p.Size = min(p.Size, 3000)
	p.IdleAfter = pick(w, 0, time.Second)
	switch w.Choose(6) {
	case 0: // bursts, and a consumer that forgets some and stays away for longer than what it used stays open
		p.Rot, p.Think, p.Habits.Batch = 300*time.Millisecond, 3*time.Second, 60
		p.Producers, p.Consumers, p.Pause = 1, 1, 6*time.Second
		p.Habits.Forget, p.Habits.Late = 25, 0
		p.IdleAfter = time.Second
		for i := range p.Topics {
			p.Topics[i].Visibility = 500 * time.Millisecond
		}
	case 1: // what is found to be damaged held back what others wait for
		p.Consumers, p.Wait, p.Pause = 5, 4*time.Second, 20*time.Millisecond
		p.Policy.Linger, p.Policy.LingerFor = "engine: reserved, not read", 60*time.Millisecond
		p.Habits.Hold, p.Habits.Late = 0, 0
		for i := range p.Topics {
			p.Topics[i].Partitions, p.Topics[i].MaxInFlight, p.Topics[i].MaxAckedAhead = 1, 2+w.Choose(3), 1
		}
	}
}

// rotLoop turns bits over until the traffic ends.
func (n *node) rotLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		r.e.Sleep(r.pause(r.plan.Rot))
		if r.stopping || n.engine == nil || !r.mayStrike() {
			continue
		}
		spec := r.plan.Topics[r.w.Choose(len(r.plan.Topics))]
		n.rotOne(engine.Key{Topic: spec.Name, Partition: int32(r.w.Choose(spec.Partitions))})
	}
}

// storedFrame is a frame of a partition log on the disk of a node.
type storedFrame struct {
	path     string
	file     disk.Ino
	at, size int64
	base     int64
	ids      []int // of the messages in it
}

// rotOne damages one frame of a partition that holds something which is not settled yet. The newest confirmed frame is spared, and
// what comes after it: a power loss may leave it the last one, and nobody could tell damage to its lengths from a torn write.
func (n *node) rotOne(key engine.Key) {
	r := n.run
	frames, err := framesOf(n.m.Disk(), key)
	if err != nil {
		r.w.Fail(fmt.Errorf("workload: frames of %v: %w", key, err))
		return
	}
	var able []storedFrame
	for i, f := range frames {
		if i+1 == len(frames) || !n.check.IsVisible(key, frames[i+1].base) {
			break
		}
		if n.check.MayRot(key, f.base, f.base+int64(len(f.ids))) {
			able = append(able, f)
		}
	}
	if len(able) == 0 {
		return
	}
	f := able[0]
	if r.w.Choose(2) == 1 {
		f = able[r.w.Choose(len(able))]
	}
	n.check.Rotted(key, f.base, f.ids)
	bit := f.at*8 + int64(r.w.Choose(int(f.size)*8))
	n.m.Rot(f.path, f.file, bit)
	if r.w.Logging() {
		r.w.Logf("%s: bit %d of %s turns over, in the frame of offsets [%d,+%d)", n.name, bit, f.path, f.base, len(f.ids))
	}
}

// framesOf reads the frames of a partition, as a reader of the disk sees them; what is damaged already ends the frames of its
// file.
func framesOf(d *disk.Disk, key engine.Key) (frames []storedFrame, err error) {
	path := fmt.Sprintf("data/topics/%s/p%05d", key.Topic, key.Partition)
	dir, err := disk.FS(d.Clone()).OpenRoot(path, false)
	if err != nil {
		return nil, nil // not there yet
	}
	defer dir.Close()
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name, ".log") {
			continue
		}
		f, err := dir.Open(entry.Name)
		if err != nil {
			return nil, err
		}
		more, err := framesIn(f, path+"/"+entry.Name)
		f.Close()
		if err != nil {
			return nil, err
		}
		frames = append(frames, more...)
	}
	return frames, nil
}

func framesIn(f vfs.File, path string) (frames []storedFrame, err error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	for at := int64(0); at < size; {
		frame, n, err := record.ParseFrame(b[at:])
		if err != nil {
			break
		}
		s := storedFrame{path: path, file: disk.Ino(f.ID().Inode), at: at, size: int64(n), base: frame.Base}
		for _, stored := range frame.Records() {
			rec, err := record.ParseRecord(stored)
			if err != nil {
				return nil, err
			}
			id, err := check.MessageID(rec.Payload)
			if err != nil {
				return nil, err
			}
			s.ids = append(s.ids, id)
		}
		frames = append(frames, s)
		at += s.size
	}
	return frames, nil
}
