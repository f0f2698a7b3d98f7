package fuzz

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/record"
	"narad/sim/disk"
	"narad/sim/realfs"
	"narad/vfs"
)

// Bounds of a program for an engine. Each crash opens another one, each judgement two.
const (
	engineOps     = 60
	engineCrashes = 4
)

// FuzzEngine carries out programs on a real engine in a real directory: produce, consume, settle, wait, kill, lose power, stop.
// A kill or a loss of power takes the files as a recorder saw them, and makes them a new directory.
// In the end the process is killed once more, and what it and a loss of power leave is judged as by narad-sim realfs.
func FuzzEngine(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := runProgram(t, b, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// program is one run. Its bytes are operations and their arguments, and what survives a loss of power; past the end all are 0.
type program struct {
	t           *testing.T
	rest        []byte
	between     func(vfs.FS) vfs.FS
	options     engine.Options
	personality disk.Personality

	session *realfs.Session
	made    int // directories
	crashes int
	held    []realfs.Lease
	stale   []realfs.Lease // handles of earlier lives
}

const (
	programTopic      = "t"
	programPartitions = 2
)

// Choose is how a crash draws.
func (p *program) Choose(n int) int {
	if len(p.rest) == 0 {
		return 0
	}
	v := int(p.rest[0])
	p.rest = p.rest[1:]
	return v % n
}

// runProgram returns the first violation.
func runProgram(t *testing.T, b []byte, between func(vfs.FS) vfs.FS) error {
	p := &program{t: t, rest: b, between: between}
	shape := p.Choose(256)
	p.options = engine.Options{
		WALSegmentBytes: 4096 << (shape & 1), SegmentBytes: 4096 << (shape >> 1 & 1), WALPreallocate: shape&4 > 0,
		CommitInterval: []time.Duration{10 * time.Millisecond, time.Second}[shape>>3&1], Codec: []record.Codec{record.CodecNone, record.CodecZstd}[shape>>4&1],
	}
	p.personality = disk.Personality(shape >> 5 & 1)
	err := p.begin(nil)
	if p.session == nil {
		return err
	}
	for ops := 0; err == nil && ops < engineOps && len(p.rest) > 0; ops++ {
		err = p.step()
	}
	return p.end(err)
}

func (p *program) dir() string {
	p.made++
	return filepath.Join(p.t.TempDir(), fmt.Sprint(p.made))
}

func (p *program) begin(from *realfs.Image) (err error) {
	p.session, err = realfs.BeginThrough(p.dir(), from, p.personality, p.options, p.between)
	if err != nil {
		return err
	}
	p.stale, p.held = append(p.stale, p.held...), nil
	return p.session.CreateTopic(engine.TopicSpec{Name: programTopic, Partitions: programPartitions, MaxAckedAhead: 4})
}

// end judges what the last life leaves.
func (p *program) end(err error) error {
	if p.session == nil {
		return err // it did not open
	}
	cut := p.session.Cut()
	if err := errors.Join(err, p.session.Abandon()); err != nil {
		return err
	}
	for _, image := range []*realfs.Image{cut.Kill(), cut.Least(), cut.Draw(p)} {
		if _, err := image.Judge(p.dir()); err != nil {
			return fmt.Errorf("%s at the end: %w", image.Crash, err)
		}
	}
	return nil
}

// operations in the order of their bytes: the first are tame.
var operations = [...]func(*program) error{
	func(p *program) error { return p.produce(1) },
	func(p *program) error { return p.consume(0) },
	func(p *program) error { return p.settle((*realfs.Session).Ack) },
	func(p *program) error { return p.consume(20 * time.Millisecond) },
	func(p *program) error { return p.produce(1 + p.Choose(8)) },
	func(p *program) error { return p.settle((*realfs.Session).Nack) },
	func(p *program) error { return p.extend() },
	func(p *program) error { return p.ackStale() },
	func(p *program) error { time.Sleep(time.Duration(p.Choose(25)) * time.Millisecond); return nil },
	func(p *program) error { return p.crash((*realfs.Cut).Kill) },
	func(p *program) error { return p.crash(func(c *realfs.Cut) *realfs.Image { return c.Draw(p) }) },
	func(p *program) error { return p.crash((*realfs.Cut).Least) },
	func(p *program) error { return p.stop() },
}

func (p *program) step() error { return operations[p.Choose(len(operations))](p) }

func (p *program) produce(count int) error {
	partition := int32(p.Choose(programPartitions+1)) - 1
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = 1 + 17*p.Choose(256)
	}
	return p.session.Produce(programTopic, partition, sizes...)
}

func (p *program) consume(wait time.Duration) error {
	got, err := p.session.Consume(programTopic, engine.AnyPartition, wait, 1+p.Choose(4))
	p.held = append(p.held, got...)
	return err
}

// settle ends one of the leases at hand.
func (p *program) settle(do func(*realfs.Session, realfs.Lease) error) error {
	if len(p.held) == 0 {
		return nil
	}
	i := p.Choose(len(p.held))
	lease := p.held[i]
	p.held = append(p.held[:i], p.held[i+1:]...)
	return do(p.session, lease)
}

func (p *program) extend() error {
	if len(p.held) == 0 {
		return nil
	}
	return p.session.Extend(p.held[p.Choose(len(p.held))])
}

func (p *program) ackStale() error {
	if len(p.stale) == 0 {
		return nil
	}
	return p.session.AckStale(p.stale[p.Choose(len(p.stale))])
}

// crash ends the life in the middle and begins the next one with what is left.
func (p *program) crash(leave func(*realfs.Cut) *realfs.Image) error {
	if p.crashes++; p.crashes > engineCrashes {
		return nil
	}
	image := leave(p.session.Cut())
	s := p.session
	p.session = nil
	if err := s.Abandon(); err != nil {
		return err
	}
	return p.begin(image)
}

// stop ends the life gracefully and begins the next one.
func (p *program) stop() error {
	if p.crashes++; p.crashes > engineCrashes {
		return nil
	}
	s := p.session
	p.session = nil
	cut, err := s.Stop()
	if err != nil {
		return err
	}
	return p.begin(cut.Stopped())
}

// A program that does everything once is right.
func TestProgram(t *testing.T) {
	all := []byte{0}
	for i := range operations {
		all = append(all, 4, 7, 1, 9, 9, 9, 9, 9, 9, 9, 9, 3, 3, 2, 0, byte(i), 1, 1, 1)
	}
	require.NoError(t, runProgram(t, all, nil))
}
