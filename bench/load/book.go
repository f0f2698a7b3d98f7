package load

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// book accounts for every message of a run. Each message has a number, which it carries in its payload.
type book struct {
	next     atomic.Int64 // number of the next message
	accepted atomic.Int64 // messages with a positive answer
	settled  atomic.Int64 // messages acked, each counted once
	sending  atomic.Int64 // producers that have a call under way, or are about to
	window   int64        // producers wait while more than that are accepted and not settled; 0: never

	mu    sync.Mutex // guards the growth of pages
	pages atomic.Pointer[[]*page]

	unanswered atomic.Int64 // produces that failed: they may turn up or not
	strange    atomic.Int64 // deliveries of what nobody produced
	refused    atomic.Int64 // acks that found no lease
}

// page holds what is known of a run of messages.
type page struct {
	ok  [pageSize]atomic.Bool  // was accepted
	got [pageSize]atomic.Int32 // how often it was delivered
	end [pageSize]atomic.Bool  // was acked
	due [pageSize]int64        // when it was due, nanoseconds; written by its producer before it is sent
}

const pageSize = 1 << 14

func (b *book) page(id int64) *page {
	at := int(id / pageSize)
	if list := b.pages.Load(); list != nil && at < len(*list) {
		return (*list)[at]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*page
	if old := b.pages.Load(); old != nil {
		list = *old
	}
	for len(list) <= at {
		list = append(list[:len(list):len(list)], new(page)) // readers keep the old list
	}
	b.pages.Store(&list)
	return list[at]
}

// take numbers n new messages that are due at an instant and returns the first number.
func (b *book) take(n int, due int64) int64 {
	first := b.next.Add(int64(n)) - int64(n)
	for i := range int64(n) {
		b.page(first + i).due[(first+i)%pageSize] = due
	}
	return first
}

func (b *book) accept(first int64, n int) {
	for i := range int64(n) {
		b.page(first + i).ok[(first+i)%pageSize].Store(true)
	}
	b.accepted.Add(int64(n))
}

// deliver notes a delivery and returns when the message was due; ok is false for what nobody produced.
func (b *book) deliver(id int64) (due int64, ok bool) {
	if id < 0 || id >= b.next.Load() {
		b.strange.Add(1)
		return 0, false
	}
	p := b.page(id)
	p.got[id%pageSize].Add(1)
	return p.due[id%pageSize], true
}

// settle notes an ack.
func (b *book) settle(id int64) {
	if id >= 0 && id < b.next.Load() && !b.page(id).end[id%pageSize].Swap(true) {
		b.settled.Add(1)
	}
}

// full reports whether producers must wait.
func (b *book) full() bool {
	return b.window > 0 && b.accepted.Load()-b.settled.Load() >= b.window
}

// Account is what became of the messages of a run.
type Account struct {
	Accepted   int64 `json:"accepted"`
	Delivered  int64 `json:"delivered"`  // different messages
	Lost       int64 `json:"lost"`       // accepted, never delivered although the queue was drained
	Duplicates int64 `json:"duplicates"` // deliveries beyond the first
	Unanswered int64 `json:"unanswered"` // produces without a positive answer
	Refused    int64 `json:"refused"`    // acks that found no lease
	Strange    int64 `json:"strange"`    // deliveries of what nobody produced
}

// account adds up; drained says that everything there is was delivered, so that what is missing is lost.
func (b *book) account(drained bool) (a Account) {
	a.Accepted, a.Unanswered, a.Refused, a.Strange = b.accepted.Load(), b.unanswered.Load(), b.refused.Load(), b.strange.Load()
	for id := range b.next.Load() {
		p := b.page(id)
		got := int64(p.got[id%pageSize].Load())
		if got > 0 {
			a.Delivered++
			a.Duplicates += got - 1
		} else if drained && p.ok[id%pageSize].Load() {
			a.Lost++
		}
	}
	return a
}

// err says what no run may show.
func (a Account) err() error {
	if a.Lost > 0 || a.Strange > 0 {
		return fmt.Errorf("load: %d messages lost, %d delivered that nobody produced", a.Lost, a.Strange)
	}
	return nil
}

var epoch = time.Now()

// now is nanoseconds on the monotonic clock.
func now() int64 { return int64(time.Since(epoch)) }
