package bench

import (
	"os"
	"path/filepath"
	"time"

	"narad/bench/report"
	"narad/engine"
	"narad/record"
	"narad/vfs"
)

// RawLoopTitle is the title of what RawLoop returns.
const RawLoopTitle = "Embedded produce by one writer against a bare loop of write and sync"

// RawLoop compares produces of an embedded engine, by one writer, with two bare loops that write the same frame and sync it: one appends
// to a file that grows, the other goes through a prewritten file, which is quicker. All take turns.
func RawLoop(o Options, size int) (s report.Section, err error) {
	s = report.Section{Title: RawLoopTitle, Table: report.Table{
		Columns: []string{"ingress log", "produces/s", "append loop/s", "engine ÷ append", "prewritten loop/s", "engine ÷ prewritten", "produce p50", "p99", "append p50", "p99", "prewritten p50", "p99"},
	}}
	s.Notes = []string{"Medians of turns. The engine dispatches meanwhile: it commits each message to its partition, too, with syncs of its own."}
	var data []RawTurns
	for _, prepared := range []bool{false, true} {
		t, err := o.rawTurns(size, prepared)
		if err != nil {
			return s, err
		}
		name := map[bool]string{false: "growing files", true: "files prepared ahead"}[prepared]
		s.Table.Add(name, report.Median(t.Produces), report.Median(t.Appends), t.OfAppends, report.Median(t.Bare), t.Ratio,
			t.Produce.P50, t.Produce.P99, t.Append.P50, t.Append.P99, t.Loop.P50, t.Loop.P99)
		data = append(data, t)
	}
	s.Data = data
	return s, nil
}

// RawTurns is what one kind of files gave.
type RawTurns struct {
	Prepared  bool           `json:"prepared"`
	Produces  []float64      `json:"produces_per_second"`
	Appends   []float64      `json:"appends_per_second"` // of the loop that appends
	OfAppends report.Ratio   `json:"of_appends"`         // produces ÷ that
	Bare      []float64      `json:"bare_per_second"`    // of the loop in a prewritten file
	Ratio     report.Ratio   `json:"ratio"`              // produces ÷ that
	Produce   report.Latency `json:"produce"`
	Append    report.Latency `json:"append"`
	Loop      report.Latency `json:"loop"`
}

func (o Options) rawTurns(size int, prepared bool) (t RawTurns, err error) {
	dir, err := os.MkdirTemp(o.Dir, "raw-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	e, err := engine.Open(filepath.Join(dir, "data"), engine.Options{WALPreallocate: prepared})
	if err != nil {
		return t, err
	}
	defer e.Close()
	if _, err := e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 12}); err != nil {
		return t, err
	}
	root, err := vfs.OS{}.OpenRoot(dir, false)
	if err != nil {
		return t, err
	}
	defer root.Close()
	f, err := root.Create("bare")
	if err != nil {
		return t, err
	}
	defer f.Close()
	payload := make([]byte, size)
	frame := record.AppendWALFrame(nil, 1, payload)
	file := pick(o, int64(1<<20), int64(64<<20))
	if _, err := f.WriteAt(make([]byte, file), 0); err != nil {
		return t, err
	}
	if err := f.Sync(); err != nil {
		return t, err
	}
	growing, err := root.Create("append")
	if err != nil {
		return t, err
	}
	defer growing.Close()
	end := int64(0)
	appends := func() error {
		if _, err := growing.WriteAt(frame, end); err != nil {
			return err
		}
		end += int64(len(frame))
		return growing.Sync()
	}
	at := int64(0)
	bare := func() error {
		if at+int64(len(frame)) > file {
			at = 0
		}
		if _, err := f.WriteAt(frame, at); err != nil {
			return err
		}
		at += int64(len(frame))
		return f.Sync()
	}
	produce := func() error {
		return e.Produce(engine.Message{Topic: "t", Partition: engine.AnyPartition, Payload: payload})
	}
	var ofAppends, ratios []float64
	var produced, appended, looped [][]int64
	length := pick(o, 100*time.Millisecond, 500*time.Millisecond)
	for range pick(o, 1, 9) {
		a, err := loopFor(length, bare)
		if err != nil {
			return t, err
		}
		c, err := loopFor(length, appends)
		if err != nil {
			return t, err
		}
		b, err := loopFor(length, produce)
		if err != nil {
			return t, err
		}
		for i := e.Ingress(); i.Next > i.Checkpoint; i = e.Ingress() {
			time.Sleep(time.Millisecond) // what the engine put off is not the bare loop's burden
		}
		t.Bare, t.Appends, t.Produces = append(t.Bare, a.rate()), append(t.Appends, c.rate()), append(t.Produces, b.rate())
		ratios, ofAppends = append(ratios, b.rate()/a.rate()), append(ofAppends, b.rate()/c.rate())
		produced, appended, looped = append(produced, b.latency...), append(appended, c.latency...), append(looped, a.latency...)
	}
	t.Prepared, t.Ratio, t.OfAppends = prepared, report.Ratio(report.Median(ratios)), report.Ratio(report.Median(ofAppends))
	t.Produce, t.Append, t.Loop = report.Distribution(produced...), report.Distribution(appended...), report.Distribution(looped...)
	return t, nil
}

// loopFor calls do again and again.
func loopFor(d time.Duration, do func() error) (s slice, err error) {
	begin := time.Now()
	var took []int64
	for last := begin; last.Sub(begin) < d; {
		if err := do(); err != nil {
			return s, err
		}
		at := time.Now()
		took = append(took, int64(at.Sub(last)))
		last = at
	}
	return slice{count: int64(len(took)), seconds: time.Since(begin).Seconds(), latency: [][]int64{took}}, nil
}
