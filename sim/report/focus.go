package report

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"narad/engine"
	"narad/sim"
	"narad/sim/model"
)

// Focus is what a failure is about. Empty fields are not known.
type Focus struct {
	Invariant string
	Demand    string // of the invariant, in words
	Detail    string // what the check said
	Node      string
	Key       engine.Key // Topic "": no partition in particular
	Offsets   []int64
	Seqs      []uint64 // of the ingress log
	Messages  []int
	Files     []string // below the root of the disk

	wide bool // all offsets of the partition are told, because there are few
}

var (
	aboutNode   = regexp.MustCompile(`\b(n\d+)\b`)
	aboutWhere  = regexp.MustCompile(`\bn\d+ ([\w.-]+)/(\d+): `) // how a check that looks at one partition begins
	aboutPart   = regexp.MustCompile(`\b(topic[\w.-]*)/(\d+)\b`)
	aboutFile   = regexp.MustCompile(`\bdata/[\w./-]*\w`)
	aboutDir    = regexp.MustCompile(`^data/topics/([\w.-]+)/p(\d+)(?:/|$)`)
	aboutHole   = regexp.MustCompile(`the frontier is (-?\d+), expected (-?\d+)`)
	aboutOffset = regexp.MustCompile(`\b(?:offset|ack of|acked-ahead offset|hole is) (\d+)`)
	aboutSeq    = regexp.MustCompile(`\b(?:record|records up to|passes record) (\d+)`)
	aboutMsg    = regexp.MustCompile(`\bmessage (\d+)`)
	aboutPlace  = regexp.MustCompile(`\{(n\d+) \{(\S+) (\d+)[^}]*\} (\d+)\}`)
)

// Focus reads from the failure what it is about, and completes it from the events: which record became which offset,
// which message is in which record.
func (r *Recording) Focus() Focus {
	f := Focus{}
	err := r.Result.Err
	if err == nil {
		return f
	}
	f.read(err)
	for _, s := range aboutMsg.FindAllStringSubmatch(err.Error(), -1) {
		f.Messages = append(f.Messages, int(number(s[1])))
	}
	for range 2 { // a message leads to a record, that to an offset, and back
		r.link(&f)
	}
	slices.Sort(f.Offsets)
	slices.Sort(f.Seqs)
	f.wide = r.small(f)
	return f
}

// wideMax is how many events of the other offsets of a partition may be told beside those of the failure.
const wideMax = 60

// small reports whether so little happened in the partition of the failure that all of it can be told.
func (r *Recording) small(f Focus) bool {
	if f.Key.Topic == "" || f.whole() {
		return false
	}
	n := 0
	for _, e := range r.Events {
		if key, _, ok := about(e.Event.Event); ok && key == f.Key {
			n++
		}
	}
	return n <= wideMax
}

func (f *Focus) read(err error) {
	text := err.Error()
	var v *model.Violation
	var crash *sim.PanicError
	switch {
	case errors.As(err, &v):
		f.Invariant, f.Detail, f.Demand = v.Invariant, v.Detail, demands[v.Invariant]
		if strings.Contains(v.Detail, lifeCycle) {
			f.Demand = demands[lifeCycle]
		}
	case errors.As(err, &crash):
		f.Invariant, f.Detail, f.Demand = "panic", text, "No task of the engine panics."
	default:
		f.Invariant, f.Detail = "failure", text
	}
	if s := aboutNode.FindStringSubmatch(text); s != nil {
		f.Node = s[1]
	}
	f.Files = aboutFile.FindAllString(text, filesMax)
	for _, file := range f.Files {
		f.keyOf(aboutDir.FindStringSubmatch(file))
	}
	f.keyOf(aboutWhere.FindStringSubmatch(text))
	if f.Key.Topic == "" {
		f.keyOf(aboutPart.FindStringSubmatch(text))
	}
	if s := aboutPlace.FindStringSubmatch(text); s != nil {
		f.Node, f.Key = s[1], engine.Key{Topic: s[2], Partition: int32(number(s[3]))}
		f.Offsets = append(f.Offsets, number(s[4]))
	}
	for _, s := range aboutOffset.FindAllStringSubmatch(text, 2) {
		f.addOffset(number(s[1]))
	}
	if s := aboutHole.FindStringSubmatch(text); s != nil {
		f.addHole(number(s[1]), number(s[2]))
	}
	for _, s := range aboutSeq.FindAllStringSubmatch(text, 2) {
		f.addSeq(uint64(number(s[1])))
	}
}

// keyOf takes the partition that a match names, if it is one.
func (f *Focus) keyOf(match []string) {
	if match != nil {
		f.Key = engine.Key{Topic: match[1], Partition: int32(number(match[2]))}
	}
}

// holeMax bounds how many offsets between two frontiers are looked at.
const holeMax = 8

// addHole adds the offsets between the frontier that there is and the one that was expected: one of them is the hole.
func (f *Focus) addHole(is, expected int64) {
	low, high := min(is, expected), max(is, expected)
	for o := low + 1; o <= min(high, low+holeMax); o++ {
		f.addOffset(o)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func (f *Focus) addOffset(o int64) {
	if !slices.Contains(f.Offsets, o) {
		f.Offsets = append(f.Offsets, o)
	}
}

func (f *Focus) addSeq(s uint64) {
	if !slices.Contains(f.Seqs, s) {
		f.Seqs = append(f.Seqs, s)
	}
}

// link completes the focus from events and calls.
func (r *Recording) link(f *Focus) {
	tasks := map[int64][]int{} // messages by the task that served their produce
	for _, c := range r.Calls {
		if len(c.Messages) > 0 && c.Task != 0 {
			tasks[c.Task] = c.Messages
		}
	}
	seen := map[int64]int{} // records accepted by a task so far
	for _, e := range r.Events {
		switch v := e.Event.Event.(type) {
		case engine.Accepted:
			id := e.Task.ID()
			if i := seen[id]; i < len(tasks[id]) {
				f.join(tasks[id][i], v.Seq)
			}
			seen[id]++
		case engine.Dispatched:
			if f.Node != "" && e.Node != f.Node {
				continue
			}
			if slices.Contains(f.Seqs, v.Seq) && (f.Key.Topic == "" || f.Key == v.Key) {
				f.Key = v.Key
				f.addOffset(v.Offset)
			} else if v.Key == f.Key && slices.Contains(f.Offsets, v.Offset) {
				f.addSeq(v.Seq)
			}
		}
	}
}

// join links a message and a record of the ingress log.
func (f *Focus) join(message int, seq uint64) {
	switch {
	case slices.Contains(f.Messages, message):
		f.addSeq(seq)
	case slices.Contains(f.Seqs, seq):
		f.Messages = append(f.Messages, message)
	}
}
