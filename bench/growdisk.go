package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"narad/bench/load"
	"narad/bench/report"
	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/vfs"
)

// Titles of the sections on partitions that are used in turn; the data of each is a list of Point.
const (
	DiskTitle = "Partitions used in turn, on the real disk"
	HTTPTitle = "Partitions used in turn, over HTTP"
)

// Series of the first.
const (
	DiskWhole = "produce, consume and ack"
	DiskCalls = "ten's cost and the demanded calls alone"
)

// stateSlot is the size of one of the two slots in a file of consumer state, in bytes (COM-12).
const stateSlot = 4096

// room is for how many partitions in use the process, or one that it starts, may open files: each needs one at all times, and shares
// others.
func room() int {
	limit := (vfs.OS{}).OpenFileLimit()
	if limit == 0 {
		return math.MaxInt
	}
	return limit - committer.MaxOpenDefault(limit) - limit/8 - filesOfProcess
}

// filesOfProcess is how many files are left for everything else.
const filesOfProcess = 200

// usedOnDisk are the sizes for which there are files.
func (o Options) usedOnDisk() []int {
	return slices.DeleteFunc(o.usedSizes(), func(n int) bool { return n+flat > room() })
}

// growHTTP has N partitions of a server that are all used in turn, and a client that sends, takes and acks one message after the other.
func (o Options) growHTTP() (report.Section, error) {
	g := newGrowth(HTTPTitle, "partitions", "ten")
	if o.Server == nil {
		return g.section("Not measured: there is no narad command to start."), nil
	}
	err := o.grow(g, o.steady(), o.usedOnDisk(), series{"produce, consume and ack", o.onServer})
	return g.section("Messages of 1 KiB one by one, of a server with its data on the real disk; the client is on the same machine. The CPU time is that " +
		"of the server. Each size takes turns with ten; in brackets is the middle half of the rounds."), err
}

// onServer has n partitions of a server, in topics of 100, all used in turn.
func (o Options) onServer(n int) (*subject, error) {
	dir, err := os.MkdirTemp(o.Dir, "server-")
	if err != nil {
		return nil, err
	}
	server, err := o.Server(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	end := func() error { return errors.Join(server.Stop(), os.RemoveAll(dir)) }
	client, err := server.Dial()
	if err != nil {
		return nil, errors.Join(err, end())
	}
	use := func(i int) error { return client.Through(topicOf(i), i%perTopic, o.size()) }
	for i := range n {
		if i%perTopic == 0 {
			err = server.CreateTopic(topicOf(i), perTopic)
		}
		if err == nil {
			err = use(i) // opens it
		}
		if err != nil {
			return nil, errors.Join(err, client.Close(), end())
		}
	}
	return &subject{
		each:  func(i int) error { return use(i % n) },
		cpu:   func() time.Duration { spent, _ := server.CPU(); return spent },
		close: func() error { return errors.Join(client.Close(), end()) },
	}, nil
}

func (o Options) size() int { return pick(o, load.MinSize, 1024) }

// growDisk has N partitions that are all used in turn, on the real disk, and beside them the calls that the specification demands for the
// consumer state of such partitions: COM-03 and COM-05 ask for a write and a sync of its file for each partition that got a message, one after the
// other (COM-09), so for each message when there are more partitions than messages in the interval.
func (o Options) growDisk() (report.Section, error) {
	g := newGrowth(DiskTitle, "partitions", "ten")
	sizes := o.usedOnDisk()
	if len(sizes) == 0 {
		return g.section("Not measured: the process may open too few files."), nil
	}
	if err := o.grow(g, o.steady(), sizes, series{DiskWhole, o.onDisk}); err != nil {
		return g.section(), err
	}
	most := min(pick(o, 40, 10_000), room())
	o.Progress("growth: %d files of consumer state on the disk", most)
	c, err := o.demanded(most)
	if err != nil {
		return g.section(), err
	}
	ten := g.first[DiskWhole]
	g.put(DiskCalls, most, cost{ten + c.cpu, c.wall}, report.Ratio(1+c.cpu/ten))
	return g.section(
		"Messages one by one, of an embedded engine; the time of one includes the syncs of the ingress log and of the partition. Each size takes turns with ten; in brackets is the middle half of the rounds.",
		fmt.Sprintf("The last row adds to the cost at ten a bare write of a record of consumer state and a bare sync of its file, %.1f µs of "+
			"CPU and %.1f µs in all, for %d files in turn: the writes of a tick, then its syncs. A partition that gets one message in a second needs both for that "+
			"message, and ten partitions share them among all messages of a second.", c.cpu, c.wall, most)), nil
}

// onDisk has n partitions, in topics of 100, all used in turn.
func (o Options) onDisk(n int) (*subject, error) {
	dir, err := os.MkdirTemp(o.Dir, "partitions-")
	if err != nil {
		return nil, err
	}
	s, err := usedInTurn(n, n, func() (*engine.Engine, error) {
		return engine.Open(filepath.Join(dir, "data"), engine.Options{WALPreallocate: true})
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	end := s.close
	s.close = func() error { return errors.Join(end(), os.RemoveAll(dir)) }
	return s, nil
}

// demanded is what a write and a sync of the consumer state of one of n partitions cost, in turn.
func (o Options) demanded(n int) (c cost, err error) {
	path, err := os.MkdirTemp(o.Dir, "files-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(path)
	dir, err := env.OS().FS().OpenRoot(path, false)
	if err != nil {
		return c, err
	}
	defer dir.Close()
	files := make([]vfs.File, n)
	for i := range files {
		if files[i], err = dir.Create(fmt.Sprintf("%06d", i)); err != nil {
			return c, err
		}
		defer files[i].Close()
		if _, err = files[i].WriteAt(make([]byte, 2*stateSlot), 0); err == nil && i%100 == 99 {
			err = files[i].Sync()
		}
		if err != nil {
			return c, err
		}
	}
	var begin time.Time
	var cpu time.Duration
	for round := range 2 { // the first one writes out what is new
		begin, cpu = time.Now(), load.OwnCPU()
		for tick := range slices.Chunk(files, filesOfTick) {
			if err = writeAndSync(tick, int64(round*stateSlot)); err != nil {
				return c, err
			}
		}
	}
	micro := float64(time.Microsecond) * float64(n)
	return cost{float64(load.OwnCPU()-cpu) / micro, float64(time.Since(begin)) / micro}, nil
}

// filesOfTick is how many partitions get a message in 100 ms, about.
const filesOfTick = 500

// writeAndSync writes a record of consumer state to each file, and then syncs each.
func writeAndSync(files []vfs.File, at int64) error {
	record := make([]byte, vfs.SectorSize)
	for _, f := range files {
		if _, err := f.WriteAt(record, at); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}
