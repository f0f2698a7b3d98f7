package bench

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"narad/bench/report"
	"narad/engine"
	"narad/vfs"
)

// RawBatchTitle is the title of what RawBatches returns.
const RawBatchTitle = "Embedded produce of batches against what the disk can write twice"

// What RawBatches sends.
const (
	rawBatchWriters = 16
	rawBatch        = 100
	rawBatchSize    = 256
	rawBatchWrite   = 1 << 20 // of the bare loop
)

// RawBatchTurns is what the turns gave.
type RawBatchTurns struct {
	Produces []float64    `json:"produces_per_second"` // until everything was committed to its partition
	Bare     []float64    `json:"bare_bytes_per_second"`
	Ratio    report.Ratio `json:"ratio"` // of the payload bytes that were stored, twice, to what the bare loop wrote
}

// RawBatches compares batches of an embedded engine with a bare loop that writes 1 MiB to a prewritten file and syncs it. The engine
// writes each message twice, to the ingress log and to its partition, and its time counts until it has. Both take turns.
func RawBatches(o Options) (s report.Section, err error) {
	s = report.Section{Title: RawBatchTitle, Table: report.Table{
		Columns: []string{"", "messages/s", "MB/s of payload, twice", "bare loop, MB/s", "engine ÷ bare"},
	}}
	s.Notes = []string{"Medians of turns. The engine's time counts until all is committed to partitions. It writes frames, keys of its own and bounds as well, which do not count."}
	var t RawBatchTurns
	if err := o.rawBatchTurns(&t); err != nil {
		return s, err
	}
	rate := report.Median(t.Produces)
	s.Table.Add("16 writers, batches of 100 × 256 B", rate, rate*2*rawBatchSize/1e6, report.Median(t.Bare)/1e6, t.Ratio)
	s.Data = []RawBatchTurns{t}
	return s, nil
}

func (o Options) rawBatchTurns(t *RawBatchTurns) error {
	dir, err := os.MkdirTemp(o.Dir, "rawbatch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e, err := engine.Open(filepath.Join(dir, "data"), engine.Options{WALPreallocate: true})
	if err != nil {
		return err
	}
	defer e.Close()
	if _, err := e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 12}); err != nil {
		return err
	}
	root, err := vfs.OS{}.OpenRoot(dir, false)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Create("bare")
	if err != nil {
		return err
	}
	defer f.Close()
	file := pick(o, int64(4<<20), int64(64<<20))
	if _, err := f.WriteAt(make([]byte, file), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	block, at := make([]byte, rawBatchWrite), int64(0)
	bare := func() error {
		if at == file {
			at = 0
		}
		if _, err := f.WriteAt(block, at); err != nil {
			return err
		}
		at += rawBatchWrite
		return f.Sync()
	}
	length := pick(o, 100*time.Millisecond, 500*time.Millisecond)
	var ratios []float64
	for range pick(o, 1, 9) {
		a, err := loopFor(length, bare)
		if err != nil {
			return err
		}
		rate, err := batchesFor(length, e)
		if err != nil {
			return err
		}
		bytes := a.rate() * rawBatchWrite
		t.Bare, t.Produces = append(t.Bare, bytes), append(t.Produces, rate)
		ratios = append(ratios, rate*2*rawBatchSize/bytes)
	}
	t.Ratio = report.Ratio(report.Median(ratios))
	return nil
}

// batchesFor produces batches for so long, and returns how many messages a second that were, the time included that it takes until all
// are in their partitions.
func batchesFor(d time.Duration, e *engine.Engine) (rate float64, err error) {
	payload := make([]byte, rawBatchSize)
	batch := make([]engine.Message, rawBatch)
	for i := range batch {
		batch[i] = engine.Message{Partition: engine.AnyPartition, Payload: payload}
	}
	var group sync.WaitGroup
	var count atomic.Int64
	var failed atomic.Pointer[error]
	begin := time.Now()
	for range rawBatchWriters {
		group.Go(func() {
			for time.Since(begin) < d && failed.Load() == nil {
				if err := e.ProduceBatch("t", batch); err != nil {
					failed.Store(&err)
					return
				}
				count.Add(rawBatch)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	for i := e.Ingress(); i.Next > i.Checkpoint; i = e.Ingress() {
		time.Sleep(time.Millisecond)
	}
	return float64(count.Load()) / time.Since(begin).Seconds(), nil
}
