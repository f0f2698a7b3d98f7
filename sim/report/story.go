package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/segment"
	"narad/sim"
	"narad/sim/workload"
	"narad/wal"
)

// Entry is one line of a story.
type Entry struct {
	At   env.Instant
	Who  string
	Text string
	Kind string // client, engine, disk, fault, failure

	order int
	core  bool  // it is about the offsets, records or messages themselves
	minor bool  // it belongs to every start, or to every pass of the pump
	task  int64 // that told it; of a call the task that served it
}

// Story tells what happened to what the failure is about, from its production to the failure, with the crashes and
// starts of the node between. Without a focus it tells everything but file calls.
func (r *Recording) Story() []Entry {
	f := r.Focus()
	var list []Entry
	tasks := map[int64]bool{} // that told something which belongs to the story
	cores := map[int64]bool{} // of them those that told something about the failure itself
	for _, e := range r.Events {
		if f.concerns(e) {
			id, core := e.Task.ID(), f.core(e.Event.Event)
			list = append(list, Entry{At: e.At, Who: r.names[id], Kind: "engine", Text: e.words(), order: e.Order, core: core, minor: minor(e.Event.Event) && !(core && f.ofCommitter()), task: id})
			tasks[id] = tasks[id] || core || f.whole() || f.wide
			cores[id] = cores[id] || core
		}
	}
	began := r.began()
	for _, c := range r.Calls {
		if tasks[c.Task] && c.Task != 0 || f.produced(c) || f.everything() && ofTopic(c) {
			list = append(list, Entry{At: c.Start, Who: c.Client, Kind: "client", Text: callWords(c), order: began[c.Task] - 1, core: cores[c.Task] || !f.ofCommitter(), task: c.Task})
		}
	}
	for _, c := range f.fileCalls(r.Disk) {
		list = append(list, Entry{At: c.End, Who: c.Who, Kind: "disk", Text: diskWords(c), order: c.Order, core: len(f.Files) > 0, task: c.Task.ID()})
	}
	list = append(list, r.faultEntries(f)...)
	slices.SortStableFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.order, b.order))
	})
	list = fold(trimStart(list))
	if f.Invariant != "" {
		list = append(list, Entry{At: r.End, Who: "check", Kind: "failure", Text: f.Invariant + ": " + firstLine(f.Detail)})
	}
	return list
}

// began tells for each task the place of the first thing that was seen of it. A call is told just before the task that serves it.
func (r *Recording) began() map[int64]int {
	first := map[int64]int{}
	see := func(task int64, order int) {
		if at, ok := first[task]; !ok || order < at {
			first[task] = order
		}
	}
	for _, e := range r.Events {
		see(e.Task.ID(), e.Order)
	}
	for _, c := range r.Disk {
		see(c.Task.ID(), c.Order)
	}
	return first
}

// faultEntries tells what happened to the node: crashes, starts, pauses, failing calls.
func (r *Recording) faultEntries(f Focus) (list []Entry) {
	for _, c := range r.Crashes {
		if f.Node == "" || c.Node == f.Node {
			list = append(list, Entry{At: c.At, Who: c.Node, Kind: "fault", Text: crashWords(c), order: c.Order})
		}
	}
	for _, l := range r.Lines {
		if brief(l.Text) || f.Node != "" && !strings.Contains(l.Text, f.Node) && !strings.HasPrefix(l.Text, "fault: ") {
			continue
		}
		kind := "fault"
		if life, what, _ := strings.Cut(l.Text, ": "); what == "boot" || what == "exited" {
			kind = "life"
			l.Text = map[string]string{"boot": "the process " + life + " starts", "exited": "the process " + life + " has ended"}[what]
		}
		if strings.HasPrefix(l.Text, "starve ") {
			kind, l.Text = "life", "the scheduler sets aside "+strings.TrimPrefix(l.Text, "starve ")
		}
		who := l.Who
		if process, ok := strings.CutPrefix(l.Text, "the process "); ok {
			who, _, _ = strings.Cut(process, ".")
		} else if who == "-" {
			who = "scheduler"
		}
		list = append(list, Entry{At: l.At, Who: who, Kind: kind, Text: l.Text, order: l.Order, minor: kind == "life"})
	}
	return list
}

// minor reports whether an event is one of every start or of every pass of the pump.
func minor(v engine.Event) bool {
	switch v := v.(type) {
	case engine.PumpPass, engine.PumpPutBack, engine.Opened, engine.ShardOpened, engine.TopicCreated, engine.Stored, engine.ConsumerSnapshot, engine.LimitsSet:
		return true
	case engine.Log:
		_, recovered := v.Event.(segment.Recovered)
		return recovered
	case engine.WAL:
		_, recovered := v.Event.(wal.Recovered)
		return recovered
	}
	return false
}

// concerns reports whether an event belongs to the story.
func (f *Focus) concerns(e Event) bool {
	if f.Node != "" && e.Node != f.Node {
		return false
	}
	if _, ok := e.Event.Event.(engine.Opened); ok {
		return true
	}
	whole := f.whole()
	if f.ofIngress() {
		switch v := e.Event.Event.(type) {
		case engine.WAL:
			return f.concernsWAL(v.Event)
		case engine.Accepted, engine.Checkpointed:
			return true
		}
		return false
	}
	switch v := e.Event.Event.(type) {
	case engine.Accepted:
		return f.hasSeq(v.Seq, v.Seq+1) || f.wide && f.Key == v.Key || whole && f.isPart(v.Key)
	case engine.Dispatched:
		return f.hasSeq(v.Seq, v.Seq+1) || f.wide && f.Key == v.Key || whole && f.isPart(v.Key) || f.Invariant == "INV-03" // a checkpoint is about what else was committed
	case engine.WAL:
		return f.concernsWAL(v.Event)
	case engine.Log:
		switch c := v.Event.(type) {
		case segment.Committed:
			return f.isPart(v.Key) && (whole || f.wide || f.hasOffset(c.Base, c.Next))
		case segment.Rolled, segment.Closed:
			return false
		}
		return f.isPart(v.Key)
	case engine.Consumer:
		return f.concernsConsumer(v.Event)
	case engine.ShardOpened:
		return f.isPart(v.Key)
	case engine.WaiterJoined, engine.WaiterLeft, engine.WaiterServed, engine.PumpPass, engine.PumpPutBack:
		return f.Key.Topic == "" && whole || (f.Invariant == "INV-17" || f.Invariant == "INV-19") && f.Key.Topic == topicOf(v)
	case engine.ConsumerSnapshot:
		return f.Key.Topic == "" && whole || f.Key == v.Key && f.ofCommitter()
	case engine.Checkpointed:
		return f.Key.Topic == "" && whole
	case engine.Withheld:
		return f.Key.Topic == "" && whole || f.Key == v.Key && f.ofLeases()
	case engine.LimitsSet:
		return f.Key == v.Key && f.ofLeases()
	case engine.LeasesExpired:
		return f.isPart(v.Key)
	case engine.TopicCreated:
		return whole && (f.Key.Topic == "" || f.Key.Topic == v.Topic.Name)
	case engine.TopicOpened:
		return false
	}
	key, offset, ok := about(e.Event.Event)
	return ok && f.isPart(key) && (whole || f.wide && f.Key == key || f.hasOffset(offset, offset+1)) || !ok && whole
}

// topicOf returns the topic of an event about parked requests.
func topicOf(v engine.Event) string {
	switch v := v.(type) {
	case engine.WaiterJoined:
		return v.Waiter.Topic
	case engine.WaiterLeft:
		return v.Waiter.Topic
	case engine.WaiterServed:
		return v.Waiter.Topic
	case engine.PumpPass:
		return v.Topic
	case engine.PumpPutBack:
		return v.Waiter.Topic
	}
	return ""
}

// everything reports whether nothing is known of what the failure is about.
func (f *Focus) everything() bool {
	return f.whole() && f.Key.Topic == "" && len(f.Files) == 0 && f.Invariant != ""
}

// ofTopic reports whether a call makes, changes or removes a topic.
func ofTopic(c workload.Call) bool { return strings.HasSuffix(c.Name, " topic") }

// core reports whether an event is about the failure itself: its offsets, or what its check looks at.
func (f *Focus) core(v engine.Event) bool {
	switch v := v.(type) {
	case engine.Consumer:
		return f.ofCommitter()
	case engine.Withheld:
		return true
	case engine.ConsumerSnapshot:
		return f.ofCommitter() && !f.whole()
	case engine.WAL:
		if _, ok := v.Event.(wal.CheckpointStored); ok {
			return f.Invariant == "INV-03"
		}
	}
	return f.named(v) || f.whole() && !minor(v)
}

// whole reports whether the failure is about no offset or record in particular.
func (f *Focus) whole() bool { return len(f.Offsets) == 0 && len(f.Seqs) == 0 }

// named reports whether an event names one of the offsets or records.
func (f *Focus) named(v engine.Event) bool {
	switch v := v.(type) {
	case engine.Accepted:
		return f.hasSeq(v.Seq, v.Seq+1)
	case engine.Dispatched:
		return f.hasSeq(v.Seq, v.Seq+1)
	}
	_, offset, ok := about(v)
	return ok && f.hasOffset(offset, offset+1)
}

// fileCallsMax bounds how many file calls a story tells: of more, the newest.
const fileCallsMax = 40

// fileCalls returns the calls that the durability of what the failure is about hangs on: those that change the ingress log,
// or the files of the committer.
func (f *Focus) fileCalls(calls []DiskCall) (list []DiskCall) {
	var about func(path string) bool
	if len(f.Files) > 0 {
		return f.callsOn(calls)
	}
	switch f.Invariant {
	case "INV-02", "INV-03":
		if len(f.Seqs) == 0 {
			return nil
		}
		about = func(path string) bool { return strings.HasSuffix(path, ".wal") || strings.HasSuffix(path, "/produce") }
	case "INV-04":
		dir := fmt.Sprintf("/%s/p%05d", f.Key.Topic, f.Key.Partition)
		about = func(path string) bool { return strings.Contains(path, dir+"/") && strings.HasSuffix(path, ".log") }
	}
	if about == nil {
		if !f.ofCommitter() {
			return nil
		}
		dir := fmt.Sprintf("/%s/p%05d", f.Key.Topic, f.Key.Partition)
		about = func(path string) bool {
			return strings.HasSuffix(path, dir) || strings.Contains(path, dir+"/consumer.")
		}
	}
	for _, c := range calls {
		if c.Machine == f.Node && about(c.Path) && c.Op != sim.OpRead && c.Op != sim.OpOpen {
			list = append(list, c)
		}
	}
	return list[max(0, len(list)-fileCallsMax):]
}

// callsOn returns the calls on the files that the failure names, and on the names that lead to them.
func (f *Focus) callsOn(calls []DiskCall) (list []DiskCall) {
	for _, c := range calls {
		if c.Machine != f.Node || c.Op == sim.OpRead || c.Op == sim.OpOpen {
			continue
		}
		if slices.ContainsFunc(f.Files, func(file string) bool { return f.onPath(c, file) }) {
			list = append(list, c)
		}
	}
	return list[max(0, len(list)-fileCallsMax):]
}

// onPath reports whether a call is on a file, on its name, or, when it is the name of a directory above it that may be lost, on that one.
func (f *Focus) onPath(c DiskCall, file string) bool {
	if name := lostName.FindStringSubmatch(f.Detail); name != nil {
		if at := strings.LastIndex(file, "/"+name[1]+"/"); at >= 0 {
			file = file[:at+1+len(name[1])]
		}
	}
	dir := file[:strings.LastIndexByte(file, '/')]
	return c.Path == file || c.Op == sim.OpRename && strings.Contains(c.Text, baseName(file)) || c.Op == sim.OpSyncDir && c.Path == dir
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// about returns the partition and offset that an event of a lease is about.
func about(v engine.Event) (engine.Key, int64, bool) {
	switch v := v.(type) {
	case engine.Leased:
		return v.Key, v.Lease.Offset, true
	case engine.Delivered:
		return v.Key, v.Offset, true
	case engine.Replayed:
		return v.Key, v.Offset, true
	case engine.Settled:
		return v.Key, v.Offset, true
	case engine.LeaseEnded:
		return v.Key, v.Offset, true
	case engine.LeaseExtended:
		return v.Key, v.Lease.Offset, true
	case engine.HandleRefused:
		return v.Key, v.Handle.Offset, true
	case engine.CorruptSkipped:
		return v.Key, v.Offset, true
	}
	return engine.Key{}, 0, false
}

func (f *Focus) isPart(k engine.Key) bool { return f.Key.Topic == "" || f.Key == k }

func (f *Focus) hasOffset(from, to int64) bool {
	return slices.ContainsFunc(f.Offsets, func(o int64) bool { return o >= from && o < to })
}

func (f *Focus) hasSeq(from, to uint64) bool {
	return slices.ContainsFunc(f.Seqs, func(s uint64) bool { return s >= from && s < to })
}

func (f *Focus) concernsWAL(v wal.Event) bool {
	switch v := v.(type) {
	case wal.BatchSynced:
		return len(f.Seqs) == 0 && f.Key.Topic == "" || f.hasSeq(v.First, v.Next)
	case wal.SegmentRemoved:
		return f.hasSeq(v.First, v.Next)
	case wal.CheckpointStored, wal.CheckpointSynced:
		return f.Invariant == "INV-03" || f.Invariant == "INV-02"
	case wal.SegmentRolled, wal.SegmentPrepared:
		return f.ofIngress()
	}
	return true
}

// ofIngress reports whether the failure is about files of the ingress log and nothing else that is known.
func (f *Focus) ofIngress() bool {
	return f.whole() && f.Key.Topic == "" && slices.ContainsFunc(f.Files, func(p string) bool { return strings.HasPrefix(p, "data/ingress/") })
}

func (f *Focus) concernsConsumer(v committer.Event) bool {
	var k committer.Key
	switch v := v.(type) {
	case committer.Primed:
		k = v.Key
	case committer.WindowWritten:
		k = v.Key
	case committer.WrittenOut:
		k = v.Key
	case committer.Levelled:
		k = v.Key
	case committer.Stranded:
		k = v.Key
	default:
		return false
	}
	if !f.ofCommitter() {
		return false
	}
	return f.Key.Topic != "" && k.Topic == f.Key.Topic && k.Partition == f.Key.Partition
}

// ofLeases reports whether the failed check is about what may be leased, and why not.
func (f *Focus) ofLeases() bool {
	switch f.Invariant {
	case "INV-05", "INV-16", "INV-17", "INV-18", "INV-24", "INV-31":
		return true
	}
	return false
}

// ofCommitter reports whether the failed check is about the state of consumers on the disk.
func (f *Focus) ofCommitter() bool {
	switch f.Invariant {
	case "INV-08", "INV-09", "INV-08 or INV-09", "INV-10", "INV-11", "INV-12", "INV-13", "INV-14", "INV-25":
		return true
	}
	return false
}

func (f *Focus) produced(c workload.Call) bool {
	return slices.ContainsFunc(c.Messages, func(m int) bool { return slices.Contains(f.Messages, m) })
}

func callWords(c workload.Call) string {
	text := c.Name
	if len(c.Messages) > 0 {
		text += fmt.Sprintf(" of message %s", strings.Trim(fmt.Sprint(c.Messages), "[]"))
	}
	took := c.End.Sub(c.Start).Round(time.Microsecond)
	if c.Pending && took == 0 {
		return fmt.Sprintf("%s to %s: under way when the run ended", text, c.Node)
	}
	if c.Pending {
		return fmt.Sprintf("%s to %s: under way for %v when the run ended", text, c.Node, took)
	}
	switch c.Outcome {
	case sim.Died:
		return fmt.Sprintf("%s to %s: no answer, the process died after %v", text, c.Node, took)
	case sim.TimedOut:
		return fmt.Sprintf("%s to %s: gave up after %v", text, c.Node, took)
	}
	if took == 0 {
		return fmt.Sprintf("%s to %s, answered at once", text, c.Node)
	}
	return fmt.Sprintf("%s to %s, answered after %v", text, c.Node, took)
}

// filesMax bounds how many files are named that a power loss changed.
const filesMax = 5

func crashWords(c Crashed) string {
	if c.Kind == sim.ProcessCrash {
		return "PROCESS CRASH: what was written stays in the page cache"
	}
	l := c.Lost
	text := fmt.Sprintf("POWER LOSS: of what was not synced %d sectors are lost and %d kept, %d writes torn, %d names lost, %d file sizes lost",
		l.SectorsLost, l.SectorsKept, l.TornWrites, l.NamesLost, l.SizesLost)
	if n := len(c.Files); n > 0 {
		text += "; " + strings.Join(c.Files[:min(n, filesMax)], "; ")
		if n > filesMax {
			text += fmt.Sprintf("; and %d files more", n-filesMax)
		}
	}
	return text
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// briefly is how long a task must have been set aside at least for that to be told: what is shorter is how every world goes.
const briefly = 10 * time.Millisecond

// brief reports whether a line tells that a task was set aside for a moment.
func brief(text string) bool {
	if !strings.HasPrefix(text, "starve ") {
		return false
	}
	d, err := time.ParseDuration(text[strings.LastIndexByte(text, ' ')+1:])
	return err == nil && d < briefly
}

// contextKept is how much of what came before the first entry about the failure itself is told.
const contextKept = 4

// trimStart drops what came before, but the newest of it.
func trimStart(list []Entry) []Entry {
	first := slices.IndexFunc(list, func(e Entry) bool { return e.core })
	return list[max(0, first-contextKept):]
}

// foldFrom is how many alike entries in a row are told as one.
const foldFrom = 5

// fold tells long runs of alike entries by their first, their last and a count.
func fold(list []Entry) (folded []Entry) {
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && alike(list[i], list[i+n]) {
			n++
		}
		if n < foldFrom {
			folded = append(folded, list[i:i+n]...)
		} else {
			last := list[i+n-1]
			text := last.Text
			last.Text = fmt.Sprintf("… %d more like this, the last: %s", n-1, text)
			folded = append(folded, list[i], last)
		}
		i += n
	}
	return folded
}

// alike compares entries but for their numbers.
func alike(a, b Entry) bool {
	return a.Kind == b.Kind && strings.Map(noDigits, a.Text) == strings.Map(noDigits, b.Text)
}

func noDigits(c rune) rune {
	if c >= '0' && c <= '9' {
		return -1
	}
	return c
}

// Explain writes the story as text.
func (r *Recording) Explain(w io.Writer) {
	f := r.Focus()
	if r.Result.Err == nil {
		fmt.Fprintf(w, "this world violates nothing\n")
		return
	}
	fmt.Fprintf(w, "%s: %s\n", f.Invariant, f.Detail)
	if f.Demand != "" {
		fmt.Fprintf(w, "the rule: %s\n", f.Demand)
	}
	fmt.Fprintf(w, "about: %s\nfaults: %s\n", f, r.decisive())
	for _, text := range []string{r.missing(f), r.neededWords()} {
		if text != "" {
			fmt.Fprintf(w, "%s\n", text)
		}
	}
	fmt.Fprintln(w)
	for _, e := range r.Story() {
		mark := map[string]string{"client": "→", "engine": " ", "disk": "·", "fault": "✗", "life": "○", "failure": "!"}[e.Kind]
		fmt.Fprintf(w, "%14.9f %s %-26s %s\n", float64(e.At)/1e9, mark, e.Who, e.Text)
	}
}

// String names what the failure is about.
func (f Focus) String() string {
	var parts []string
	if f.Node != "" {
		parts = append(parts, "node "+f.Node)
	}
	if f.Key.Topic != "" {
		parts = append(parts, "partition "+part(f.Key))
	}
	for _, l := range []struct {
		name string
		n    int
		list any
	}{{"offset", len(f.Offsets), f.Offsets}, {"record", len(f.Seqs), f.Seqs}, {"message", len(f.Messages), f.Messages}} {
		if l.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", l.name, strings.Trim(fmt.Sprint(l.list), "[]")))
		}
	}
	if len(parts) == 0 {
		return "nothing in particular"
	}
	return strings.Join(parts, ", ")
}
