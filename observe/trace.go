package observe

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"narad/engine"
)

// Bounds of the tracer.
const (
	traceQueue    = 8192  // events that wait to become spans; more are lost
	tracedMax     = 16384 // messages that are followed; the oldest is let go
	traceStopTime = 5 * time.Second
)

// tracer follows messages from their accept to their ack. A message is one trace:
//
//	message            accepted … acked
//	├─ dispatch        accepted … in its partition, visible
//	├─ wait            visible, or given back, … handed out
//	└─ process         handed out … acked, given back or handed out again; one for each delivery
//
// A stored message is known by topic, partition and offset, which every span carries. What a restart brings back has a trace
// that begins where it is seen first. Whether a message is traced is decided by the sampler when its trace begins.
type tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	queue    chan tracedEvent
	lost     atomic.Int64
	done     sync.WaitGroup
	mu       sync.RWMutex // guards closed and the close of queue
	closed   bool

	// The rest belongs to run.
	accepted map[uint64]*tracedMessage // by their place in the ingress log
	early    map[uint64]bool           // in their partition before Accepted was heard
	stored   map[place]*tracedMessage
	order    []*tracedMessage // oldest first
}

type tracedEvent struct {
	event engine.Event
	at    time.Time
}

// place is where a message is stored.
type place struct {
	key    engine.Key
	offset int64
}

type tracedMessage struct {
	ctx      context.Context // of the root span
	root     trace.Span
	step     trace.Span // dispatch, wait or process; nil between them
	leased   bool       // step is process
	nonce    int64
	attempts int
	seq      uint64
	at       place
	over     bool
}

// startTracer starts a tracer whose spans go to a provider.
func startTracer(provider *sdktrace.TracerProvider) *tracer {
	t := &tracer{
		provider: provider, spans: provider.Tracer("narad"), queue: make(chan tracedEvent, traceQueue),
		accepted: map[uint64]*tracedMessage{}, early: map[uint64]bool{}, stored: map[place]*tracedMessage{},
	}
	t.done.Go(t.run)
	return t
}

// listen takes an event; it never blocks.
func (t *tracer) listen(v engine.Event) {
	switch v.(type) {
	case engine.Accepted, engine.Dispatched, engine.Delivered, engine.Settled, engine.LeaseEnded:
	default:
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return
	}
	select {
	case t.queue <- tracedEvent{v, time.Now()}:
	default:
		t.lost.Add(1)
	}
}

// close ends what is open and sends what waits. A nil tracer has nothing to do.
func (t *tracer) close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.queue)
	}
	t.mu.Unlock()
	t.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), traceStopTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

func (t *tracer) run() {
	for v := range t.queue {
		t.follow(v.event, v.at)
	}
	now := time.Now()
	for _, m := range t.order {
		m.end("unfinished", now)
	}
}

func (t *tracer) follow(v engine.Event, at time.Time) {
	switch v := v.(type) {
	case engine.Accepted:
		if t.early[v.Seq] {
			delete(t.early, v.Seq)
			return
		}
		if m := t.begin(v.Key, at); m != nil {
			m.seq = v.Seq
			t.accepted[v.Seq] = m
			m.step = t.child(m, "dispatch", at)
		}
	case engine.Dispatched:
		t.dispatched(v, at)
	case engine.Delivered:
		t.delivered(v, at)
	case engine.Settled:
		if m := t.stored[place{v.Key, v.Offset}]; m != nil {
			m.end("ack", at)
			delete(t.stored, m.at)
		}
	case engine.LeaseEnded:
		if m := t.stored[place{v.Key, v.Offset}]; m != nil && m.leased && m.nonce == v.Nonce {
			m.endStep(endingNames[v.Cause], at)
			m.step = t.child(m, "wait", at)
		}
	}
}

func (t *tracer) dispatched(v engine.Dispatched, at time.Time) {
	m := t.accepted[v.Seq]
	delete(t.accepted, v.Seq)
	if m == nil {
		if len(t.early) < tracedMax {
			t.early[v.Seq] = true
		}
		if m = t.begin(v.Key, at); m == nil {
			return
		}
	}
	m.at = place{v.Key, v.Offset}
	m.root.SetAttributes(offsetOf(v.Offset))
	m.endStep("stored", at)
	m.step = t.child(m, "wait", at)
	t.stored[m.at] = m
}

func (t *tracer) delivered(v engine.Delivered, at time.Time) {
	m := t.stored[place{v.Key, v.Offset}]
	if m == nil {
		if m = t.begin(v.Key, at); m == nil {
			return
		}
		m.at = place{v.Key, v.Offset}
		m.root.SetAttributes(offsetOf(v.Offset))
		t.stored[m.at] = m
	}
	m.attempts++
	if m.leased {
		m.endStep("expired", at) // nothing else lets it be handed out again
	} else {
		m.endStep("delivered", at)
	}
	m.step, m.leased, m.nonce = t.child(m, "process", at), true, v.Nonce
	m.step.SetAttributes(offsetOf(v.Offset), attribute.Int("narad.delivery", m.attempts), attribute.Int("messaging.message.body.size", v.Bytes))
}

// begin starts the trace of a message, unless the sampler wants none.
func (t *tracer) begin(key engine.Key, at time.Time) *tracedMessage {
	ctx, root := t.spans.Start(context.Background(), "message "+key.Topic, trace.WithTimestamp(at), trace.WithAttributes(
		attribute.String("messaging.system", "narad"), attribute.String("messaging.destination.name", key.Topic),
		attribute.String("messaging.destination.partition.id", strconv.Itoa(int(key.Partition)))))
	if !root.IsRecording() {
		root.End()
		return nil
	}
	m := &tracedMessage{ctx: ctx, root: root}
	t.order = append(t.order, m)
	t.letGo(at)
	return m
}

// letGo forgets what is over, and the oldest when too many are followed.
func (t *tracer) letGo(at time.Time) {
	for len(t.order) > 0 && (t.order[0].over || len(t.order) > tracedMax) {
		m := t.order[0]
		t.order[0] = nil
		t.order = t.order[1:]
		if t.stored[m.at] == m {
			delete(t.stored, m.at)
		}
		if t.accepted[m.seq] == m {
			delete(t.accepted, m.seq)
		}
		m.end("let_go", at)
	}
}

func (t *tracer) child(m *tracedMessage, name string, at time.Time) trace.Span {
	_, s := t.spans.Start(m.ctx, name, trace.WithTimestamp(at))
	return s
}

func (m *tracedMessage) endStep(outcome string, at time.Time) {
	if m.step != nil {
		m.step.SetAttributes(attribute.String("narad.outcome", outcome))
		m.step.End(trace.WithTimestamp(at))
	}
	m.step, m.leased = nil, false
}

func (m *tracedMessage) end(outcome string, at time.Time) {
	if m.over {
		return
	}
	m.over = true
	m.endStep(outcome, at)
	m.root.SetAttributes(attribute.String("narad.outcome", outcome), attribute.Int("narad.deliveries", m.attempts))
	m.root.End(trace.WithTimestamp(at))
}

func offsetOf(offset int64) attribute.KeyValue {
	return attribute.Int64("messaging.message.offset", offset)
}
