package torture

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"narad/client"
)

func (r *run) produceLoop(rng *rand.Rand) {
	pause := 2 * time.Second * time.Duration(r.Producers) / time.Duration(r.Rate) // at most; half of it on average
	for !r.halt.Load() {
		if r.backlog.Load() > int64(r.Backlog) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		r.produce(rng)
		time.Sleep(time.Duration(rng.Int64N(int64(pause) + 1)))
	}
}

func (r *run) produce(rng *rand.Rand) {
	m, number := r.newMessage(rng)
	err := r.now().client.Produce(context.Background(), m)
	result := unknown
	var e *client.Error
	switch {
	case err == nil:
		result = ok
		r.backlog.Add(1)
	case errors.As(err, &e) && e.Unsent:
		result = refused
		time.Sleep(2 * time.Millisecond) // nobody answers for the moment
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.produced = append(r.history.produced, produceOp{number, result})
	if result == ok {
		r.accepted++
	}
	r.noteStatus("produce", err)
}

// newMessage makes a message that there never was, of any of the three codings and of many sizes.
func (r *run) newMessage(rng *rand.Rand) (client.Outgoing, int) {
	pad := make([]byte, rng.IntN(400))
	if rng.IntN(500) == 0 {
		pad = make([]byte, rng.IntN(200_000))
	}
	for i := range pad {
		pad[i] = byte(rng.Uint32())
	}
	m := client.Outgoing{Topic: topicName(rng.IntN(r.Topics))}
	switch rng.IntN(4) {
	case 0:
		m.Key = fmt.Appendf(nil, "key %d", rng.IntN(50))
	case 1:
		m.Partition = new(rng.IntN(r.Partitions))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number := len(r.messages)
	switch text := base64.StdEncoding.EncodeToString(pad); number % 3 {
	case 0:
		m.Payload = fmt.Appendf(nil, `{"message": %d,  "pad":"%s"}`, number, text)
	case 1:
		m.Payload = fmt.Appendf(nil, "message %d <%s>\n", number, text)
	default:
		m.Payload = append(fmt.Appendf(nil, "\xff%d\x00", number), pad...)
	}
	r.payloads[string(m.Payload)] = number
	r.messages = append(r.messages, sent{m.Topic, string(m.Key)})
	return m, number
}

// noteStatus counts answers that are errors by what they say; a dying server gives none. mu is held.
func (r *run) noteStatus(what string, err error) {
	var e *client.Error
	if errors.As(err, &e) && e.Status != 0 && e.Status != 410 {
		r.statuses[fmt.Sprintf("%s: %v", what, err)]++
	}
}

// holding is a lease whose consumer takes its time.
type holding struct {
	delivery delivery
	until    time.Duration
}

// consumer is one consumer. It acknowledges most messages at once; others it gives back, forgets, holds on to (past
// the lease, or past the life of the server), extends, or acknowledges twice.
type consumer struct {
	run  *run
	rng  *rand.Rand
	held []holding
}

func (c *consumer) below(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d))) }

func (c *consumer) loop() {
	r := c.run
	for !r.halt.Load() {
		for len(c.held) > 0 && (c.held[0].until < r.clock() || c.held[0].delivery.life != r.now().number) {
			r.settle(c.held[0].delivery, ack)
			c.held = c.held[1:]
		}
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if c.rng.IntN(30) == 0 { // leaves while it waits, or at the moment of delivery
			ctx, cancel = context.WithTimeout(ctx, c.below(30*time.Millisecond))
		}
		d, got := c.consume(ctx, topicName(c.rng.IntN(r.Topics)), 500*time.Millisecond)
		cancel()
		if got {
			c.treat(d)
		}
	}
	for _, h := range c.held {
		r.settle(h.delivery, ack)
	}
}

func (c *consumer) treat(d delivery) {
	r := c.run
	switch n := c.rng.IntN(100); {
	case n < 8:
		r.settle(d, nack)
	case n < 14: // forgotten
	case n < 22:
		c.held = append(c.held, holding{d, r.clock() + c.below(2*r.Visibility)})
	case n < 30:
		r.settle(d, extend)
		time.Sleep(c.below(20 * time.Millisecond))
		r.settle(d, ack)
	case n < 34:
		r.settle(d, ack)
		r.settle(d, verb(c.rng.IntN(3)))
	default:
		r.settle(d, ack)
	}
}

// consume asks the current server for a message.
func (c *consumer) consume(ctx context.Context, topic string, wait time.Duration) (delivery, bool) {
	r := c.run
	l := r.now()
	call := r.clock()
	m, err := l.client.Consume(ctx, topic, client.ConsumeOptions{Wait: wait})
	ret := r.clock()
	if err != nil {
		r.mu.Lock()
		r.noteStatus("consume", err)
		r.mu.Unlock()
		if !errors.Is(err, client.ErrEmpty) {
			time.Sleep(2 * time.Millisecond) // nobody answers for the moment
		}
		return delivery{}, false
	}
	d := delivery{copyID{topic, m.Partition, m.Offset}, m.Handle, -1, l.number, call, ret}
	r.mu.Lock()
	defer r.mu.Unlock()
	number, known := r.payloads[string(m.Payload)]
	if !known {
		r.strays = append(r.strays, fmt.Sprintf("%v: nobody produced %.200q", d.copy, m.Payload))
		return delivery{}, false
	}
	if s := r.messages[number]; s.topic != m.Topic || s.topic != topic || s.key != string(m.Key) {
		r.strays = append(r.strays, fmt.Sprintf("%v: message %d has topic %q and key %q, was produced to %q with %q", d.copy, number, m.Topic, m.Key, s.topic, s.key))
	}
	if !strings.HasPrefix(m.Handle, fmt.Sprintf("%d:%d:", m.Partition, m.Offset)) {
		r.strays = append(r.strays, fmt.Sprintf("%v: handle %q", d.copy, m.Handle))
	}
	d.message = number
	r.history.deliveries = append(r.history.deliveries, d)
	return d, true
}

// settle acknowledges, gives back or extends at the current server, whichever process gave the handle out.
func (r *run) settle(d delivery, what verb) {
	l := r.now()
	do := [...]func(context.Context, string, string) error{ack: l.client.Ack, nack: l.client.Nack, extend: l.client.Extend}[what]
	call := r.clock()
	err := do(context.Background(), d.copy.topic, d.handle)
	s := settleOp{d.copy, d.handle, what, l.number, call, r.clock(), unknown}
	var e *client.Error
	errors.As(err, &e)
	switch {
	case err == nil:
		s.outcome = ok
	case e != nil && e.Unsent:
		return // nothing was asked of anybody
	case errors.Is(err, client.ErrLeaseLost):
		s.outcome = refused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if what == ack && s.outcome == ok {
		r.backlog.Add(-1)
		r.acked++
	}
	r.history.settled = append(r.history.settled, s)
	r.noteStatus("settle", err)
}
