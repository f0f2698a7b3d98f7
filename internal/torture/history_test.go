package torture

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// story builds a history step by step on a clock that moves a millisecond with each call and each answer.
type story struct {
	h     history
	clock time.Duration
	life  int
}

func newStory() *story {
	return &story{h: history{visibility: time.Second, undoneMax: 200 * time.Millisecond}}
}

// nonced makes a receipt handle of a letter.
func nonced(letter string) string { return fmt.Sprintf("0:0:%d", letter[0]) }

func (s *story) tick() time.Duration {
	s.clock += time.Millisecond
	return s.clock
}

func (s *story) wait(d time.Duration) { s.clock += d }

func (s *story) produce(message int, o outcome) {
	s.h.produced = append(s.h.produced, produceOp{message, o})
}

func (s *story) deliver(message int, offset int64, handle string) {
	s.h.deliveries = append(s.h.deliveries, delivery{copyID{"t", 0, offset}, nonced(handle), message, s.life, s.tick(), s.tick()})
}

func (s *story) settle(handle string, v verb, o outcome) {
	for _, d := range s.h.deliveries {
		if d.handle == nonced(handle) {
			s.h.settled = append(s.h.settled, settleOp{d.copy, d.handle, v, s.life, s.tick(), s.tick(), o})
			return
		}
	}
}

func (s *story) restart(graceful bool) {
	s.h.deaths = append(s.h.deaths, death{at: s.tick(), over: s.tick(), graceful: graceful})
	s.life++
}

// beyondOneCopy are ways to be wrong that the history of a single copy does not show: who produced it, and how old an ack
// was when a crash undid it.
var beyondOneCopy = []string{
	"lost before delivery", "delivered though unsent", "a copy changes its message", "an old ack is undone", "windows do not add up over crashes",
	"a graceful stop undoes an ack",
}

// The checker finds each way to be wrong, and nothing in histories that are right.
func TestHistoryCheck(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*story)
		want string // of the only violation; empty for none
	}{
		"delivered and acknowledged": {func(s *story) {
			s.produce(1, ok)
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.settle("a", ack, refused)
		}, ""},
		"every legal way to come again": {func(s *story) {
			s.produce(1, ok)
			s.deliver(1, 0, "a")
			s.settle("a", nack, ok)
			s.deliver(1, 0, "b") // given back
			s.wait(time.Second)
			s.deliver(1, 0, "c") // lapsed
			s.settle("b", ack, refused)
			s.restart(false)
			s.settle("c", ack, refused)
			s.deliver(1, 0, "d") // forgotten by the crash
			s.settle("d", ack, ok)
			s.wait(100 * time.Millisecond)
			s.restart(false)
			s.deliver(1, 0, "e") // undone by the crash
			s.settle("e", ack, ok)
			s.deliver(1, 1, "f") // a second copy
			s.settle("f", ack, unknown)
			s.restart(true)
			s.deliver(1, 1, "g") // nobody knows whether the ack arrived
			s.settle("g", ack, ok)
		}, ""},
		"an unknown produce that never arrived, one that did": {func(s *story) {
			s.produce(1, unknown)
			s.produce(2, unknown)
			s.deliver(2, 0, "a")
			s.settle("a", ack, ok)
			s.produce(3, refused)
		}, ""},
		"lost before delivery": {func(s *story) { s.produce(1, ok) }, "never acknowledged (0 copies"},
		"lost after delivery": {func(s *story) {
			s.produce(1, ok)
			s.deliver(1, 0, "a")
			s.settle("a", nack, ok)
		}, "never acknowledged (1 copies"},
		"delivered though unsent": {func(s *story) {
			s.produce(1, refused)
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
		}, "never reached the server"},
		"a copy changes its message": {func(s *story) {
			s.deliver(1, 0, "a")
			s.restart(false)
			s.deliver(2, 0, "b")
		}, "was message 1 and then message 2"},
		"two leases at once": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(900 * time.Millisecond)
			s.deliver(1, 0, "b")
		}, "leased to two at once"},
		"two leases at once after an extension": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(900 * time.Millisecond)
			s.settle("a", extend, ok)
			s.wait(900 * time.Millisecond)
			s.deliver(1, 0, "b")
		}, "leased to two at once"},
		"an extension without an answer promises nothing": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(900 * time.Millisecond)
			s.settle("a", extend, unknown)
			s.wait(900 * time.Millisecond)
			s.deliver(1, 0, "b")
			s.settle("b", ack, ok)
		}, ""},
		"a handle twice": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(2 * time.Second)
			s.deliver(1, 0, "a")
		}, "given out twice"},
		"a handle outlives its process": {func(s *story) {
			s.deliver(1, 0, "a")
			s.restart(false)
			s.settle("a", ack, ok)
		}, "was accepted by process 1"},
		"a lapsed lease settles": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(1100 * time.Millisecond)
			s.settle("a", ack, ok)
		}, "after its lease must have ended"},
		"a lapsed lease is extended": {func(s *story) {
			s.deliver(1, 0, "a")
			s.wait(1100 * time.Millisecond)
			s.settle("a", extend, ok)
		}, "after its lease must have ended"},
		"acknowledged twice": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.wait(time.Millisecond)
			s.settle("a", ack, ok)
		}, "after its lease must have ended"},
		"acknowledged after a nack": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", nack, ok)
			s.settle("a", ack, ok)
		}, "after its lease must have ended"},
		"a live lease is refused": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", extend, ok)
			s.wait(900 * time.Millisecond)
			s.settle("a", ack, refused)
		}, "before its lease could end"},
		"delivered again by the same process": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.wait(2 * time.Second)
			s.deliver(1, 0, "b")
		}, "delivered again at 2.006s by the same process"},
		"an old ack is undone": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.wait(300 * time.Millisecond)
			s.restart(false)
			s.deliver(1, 0, "b")
		}, "before the kill, and delivered again"},
		"windows do not add up over crashes": {func(s *story) { // REC-17
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.wait(300 * time.Millisecond)
			s.restart(false)
			s.restart(false)
			s.deliver(1, 0, "b")
		}, "before the kill, and delivered again"},
		"a graceful stop undoes an ack": {func(s *story) {
			s.deliver(1, 0, "a")
			s.settle("a", ack, ok)
			s.restart(true)
			s.deliver(1, 0, "b")
		}, "after a graceful stop"},
	} {
		s := newStory()
		c.tell(s)
		f := s.h.check()
		l := s.h.linearize(s.clock)
		require.Zero(t, l.unknown, name)
		if c.want == "" {
			require.Empty(t, f.violations, name)
			require.Empty(t, l.illegal, name)
			continue
		}
		if !slices.Contains(beyondOneCopy, name) {
			require.NotEmpty(t, l.illegal, "porcupine passes: %s", name)
			require.Contains(t, string(l.page), "<html", name)
		}
		require.Len(t, f.violations, 1, "%s: %s", name, strings.Join(f.violations, "\n"))
		require.Contains(t, f.violations[0], c.want, name)
	}
}

// The report says what was wrong, in both forms.
func TestReport(t *testing.T) {
	s := newStory()
	s.produce(1, ok)
	s.deliver(1, 0, "a")
	s.settle("a", ack, ok)
	good := Report{}
	good.judge(&s.h, s.clock)
	require.True(t, good.Passed())
	require.Contains(t, good.Text(), "1 copies linearizable")
	s.deliver(1, 0, "b")
	bad := Report{}
	bad.judge(&s.h, s.clock)
	require.False(t, bad.Passed())
	require.Contains(t, bad.Text(), "by the same process")
	var page bytes.Buffer
	require.NoError(t, bad.HTML(&page))
	require.Contains(t, page.String(), "FAILED")
	require.Contains(t, page.String(), "INV-06: t/0 @0: the history of this copy is not linearizable")
	require.NotContains(t, page.String(), "<iframe srcdoc=\"\"")
	require.False(t, (&Report{Undecided: 1}).Passed(), "what was not decided has not passed")
}

// A server that does not come up is an error, not a verdict.
func TestRunWithoutServer(t *testing.T) {
	_, err := Run(t.Context(), Config{Binary: "false", Dir: t.TempDir()})
	require.ErrorContains(t, err, "torture: ")
	_, err = Run(t.Context(), Config{Binary: "/nonexistent/narad", Dir: t.TempDir()})
	require.ErrorContains(t, err, "no such file")
}
