package load

import (
	"bytes"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"narad/engine"
)

// session is one client on one connection. A loop calls its methods, never two at a time.
type session interface {
	// next returns the request to send now. Without one it returns when to ask again: an instant, soon (0), or never (<0).
	next() (request []byte, again int64)
	// reply takes the answer to the last request. The session is over after an error.
	reply(answer) error
}

// Instants for session.next.
const (
	soon  = 0
	never = -1
)

// phase tells clients what part of a run they are in.
type phase struct {
	measuring atomic.Bool // samples count
	produce   atomic.Bool // producers send
	consume   atomic.Bool // consumers ask
}

// schedule hands out when messages are due in an open loop.
type schedule struct {
	start    int64
	interval float64 // nanoseconds
	taken    atomic.Int64
}

func newSchedule(rate float64, batch int) *schedule {
	if rate <= 0 {
		return nil
	}
	return &schedule{start: now(), interval: float64(time.Second) * float64(batch) / rate}
}

func (s *schedule) next() int64 {
	return s.start + int64(float64(s.taken.Add(1)-1)*s.interval)
}

// samples are the latencies that one client saw.
type samples struct {
	produce, consume, ack, through []int64
	late                           []int64 // open loop: how late the client itself was although it had nothing else to do
}

// producer sends messages as fast as it is answered, or when they are due.
type producer struct {
	book     *book
	phase    *phase
	schedule *schedule // nil: closed loop
	template template
	batch    int

	samples samples
	due     int64 // of the next messages, 0: none were taken
	idle    int64 // since when it waits for that
	first   int64
	sent    int64
	counted bool
}

func (p *producer) next() ([]byte, int64) {
	again, ok := p.may()
	if !ok {
		return nil, again
	}
	return p.template.numbered(p.first), 0
}

// may begins the next call, or says when to ask again. A call that has begun counts as under way before anybody is told
// that producers shall end, or it does not begin.
func (p *producer) may() (again int64, ok bool) {
	p.book.sending.Add(1)
	defer func() {
		if !ok {
			p.book.sending.Add(-1)
		}
	}()
	if !p.phase.produce.Load() {
		return never, false
	}
	at := now()
	if p.schedule != nil {
		if p.due == 0 {
			p.due, p.idle = p.schedule.next(), at
		}
		if p.due > at {
			return p.due, false
		}
	} else if p.book.full() {
		return soon, false
	}
	p.begin(at)
	return 0, true
}

// begin numbers the messages that are about to be sent.
func (p *producer) begin(at int64) {
	p.sent, p.counted = at, p.phase.measuring.Load()
	due := at
	if p.schedule != nil {
		due = p.due
		if p.counted && p.idle < due {
			p.samples.late = append(p.samples.late, at-due)
		}
		p.sent, p.due = due, 0
	}
	p.first = p.book.take(p.batch, due)
}

func (p *producer) reply(a answer) error {
	if a.status != 202 {
		p.failed()
		return fmt.Errorf("load: produce was answered %d: %s", a.status, a.body[:min(len(a.body), 200)])
	}
	p.done()
	return nil
}

// failed notes that nobody knows whether the messages will turn up.
func (p *producer) failed() {
	p.book.unanswered.Add(int64(p.batch))
	p.book.sending.Add(-1)
}

// done notes that the messages were accepted.
func (p *producer) done() {
	p.book.accept(p.first, p.batch)
	p.book.sending.Add(-1)
	if p.counted && p.phase.measuring.Load() {
		p.samples.produce = append(p.samples.produce, now()-p.sent)
	}
}

// consumer takes messages and acks them.
type consumer struct {
	book  *book
	phase *phase
	host  string
	topic string
	ask   []byte                                // the consume request
	asked atomic.Pointer[engine.ConsumeRequest] // the same when embedded

	samples samples
	held    []received
	out     []byte
	acking  bool
	sent    int64
}

func consumeRequest(host, topic string, wait time.Duration, batch int) []byte {
	path := fmt.Sprintf("/v1/topics/%s/consume?wait=%s", topic, wait)
	if batch > 1 {
		path += "&max=" + strconv.Itoa(batch)
	}
	return request("GET", path, host, nil)
}

func (c *consumer) next() ([]byte, int64) {
	if c.acking = len(c.held) > 0; c.acking {
		c.sent = now()
		return c.out, 0
	}
	if !c.phase.consume.Load() {
		return nil, never
	}
	c.sent = now()
	return c.ask, 0
}

func (c *consumer) reply(a answer) error {
	if c.acking {
		return c.acked(a)
	}
	switch a.status {
	case 204:
		return nil
	case 200:
	default:
		return fmt.Errorf("load: consume was answered %d: %s", a.status, a.body[:min(len(a.body), 200)])
	}
	var err error
	c.held, err = messages(c.held[:0], a.body)
	if err != nil {
		return err
	}
	if len(c.held) > 0 {
		c.out = ackRequest(c.out[:0], c.host, c.topic, c.held) // copies the handles, which alias the answer
	}
	c.took(now())
	return nil
}

// took notes deliveries.
func (c *consumer) took(at int64) {
	counted := c.phase.measuring.Load()
	for _, m := range c.held {
		due, ok := c.book.deliver(m.id)
		if ok && counted {
			c.samples.through = append(c.samples.through, at-due)
		}
	}
	if counted {
		c.samples.consume = append(c.samples.consume, at-c.sent)
	}
}

var statusField = []byte(`"status":`)

// acked takes the answer to an ack: one status for one message, a list of them for several.
func (c *consumer) acked(a answer) error {
	switch {
	case a.status == 204 || a.status == 410:
		c.settle(func(int) bool { return a.status == 204 })
		return nil
	case a.status != 200:
		return fmt.Errorf("load: ack was answered %d: %s", a.status, a.body[:min(len(a.body), 200)])
	}
	results := bytes.Split(a.body, statusField)[1:]
	if len(results) != len(c.held) {
		return fmt.Errorf("load: %d messages were acked and %d results came back", len(c.held), len(results))
	}
	for _, r := range results {
		if !bytes.HasPrefix(r, []byte("204")) && !bytes.HasPrefix(r, []byte("410")) {
			return fmt.Errorf("load: an ack of a batch was answered %s", r[:min(len(r), 100)])
		}
	}
	c.settle(func(i int) bool { return results[i][0] == '2' })
	return nil
}

// settle notes the acks of what is held, of which some may have found no lease.
func (c *consumer) settle(done func(i int) bool) {
	n := int64(0)
	for i, m := range c.held {
		if done(i) {
			c.book.settle(m.id)
			n++
		}
	}
	c.book.refused.Add(int64(len(c.held)) - n)
	c.held = c.held[:0]
	if c.phase.measuring.Load() {
		c.samples.ack = append(c.samples.ack, now()-c.sent)
	}
}
