package client

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// ErrBatcherClosed reports a message for a batcher that was closed.
var ErrBatcherClosed = errors.New("the batcher is closed")

// BatcherOptions configure a [Batcher]. The zero value of every field means its default.
type BatcherOptions struct {
	Messages int           // in a batch at most; default 100, at most 1,000
	Bytes    int           // of a batch in its wire form, about; default 1 MiB
	Linger   time.Duration // how long a batch waits for more messages; default 5 ms, negative for not at all
	InFlight int           // requests at a time; default 4. More callers wait.
}

// Batcher puts messages of many callers into few requests. A message is sent when its batch is full, or has lingered. The
// retries of a batch are those of every operation; as all of a batch is stored or nothing, a retry may store all of it twice.
type Batcher struct {
	client *Client
	opts   BatcherOptions
	slots  chan struct{} // one for each request in flight
	ctx    context.Context
	cancel context.CancelFunc
	sends  sync.WaitGroup

	mu     sync.Mutex
	open   map[string]*batch // by topic
	closed bool
}

// batch is messages of one topic that go together.
type batch struct {
	topic    string
	messages []Outgoing
	done     []func(error)
	bytes    int
	timer    *time.Timer
}

// NewBatcher returns a batcher. Close ends it.
func (c *Client) NewBatcher(o BatcherOptions) *Batcher {
	setDefault(&o.Messages, 100)
	setDefault(&o.Bytes, 1<<20)
	setDefault(&o.Linger, 5*time.Millisecond)
	setDefault(&o.InFlight, 4)
	b := &Batcher{client: c, opts: o, slots: make(chan struct{}, o.InFlight), open: map[string]*batch{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Produce stores a message and waits for the answer of its batch. When ctx ends before, the message may be stored all the same.
func (b *Batcher) Produce(ctx context.Context, m Outgoing) error {
	answered := make(chan error, 1)
	if err := b.Send(ctx, m, func(err error) { answered <- err }); err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Send puts a message into a batch and returns; done is called with the outcome, on a goroutine of the batcher, which it must
// not hold up. Send waits only while its message fills a batch and all requests are in flight. After an error of Send itself
// the message is not sent and done is not called.
//
// Key and payload must not be changed before done is called.
func (b *Batcher) Send(ctx context.Context, m Outgoing, done func(error)) error {
	size := wireSize(m)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrBatcherClosed
	}
	var full []*batch
	if open := b.open[m.Topic]; open != nil && open.bytes+size > b.opts.Bytes {
		full = append(full, b.takeLocked(open))
	}
	open := b.open[m.Topic]
	if open == nil {
		open = b.newBatchLocked(m.Topic)
	}
	open.messages, open.done, open.bytes = append(open.messages, m), append(open.done, done), open.bytes+size
	if len(open.messages) >= b.opts.Messages || open.bytes >= b.opts.Bytes || b.opts.Linger < 0 {
		full = append(full, b.takeLocked(open))
	}
	b.sends.Add(len(full))
	b.mu.Unlock()
	for _, f := range full {
		b.dispatch(ctx, f)
	}
	return nil
}

// newBatchLocked opens a batch, which is sent when it has lingered.
func (b *Batcher) newBatchLocked(topic string) *batch {
	open := &batch{topic: topic}
	b.open[topic] = open
	if b.opts.Linger > 0 {
		open.timer = time.AfterFunc(b.opts.Linger, func() { b.lingered(open) })
	}
	return open
}

// takeLocked closes a batch for more messages.
func (b *Batcher) takeLocked(open *batch) *batch {
	delete(b.open, open.topic)
	if open.timer != nil {
		open.timer.Stop()
	}
	return open
}

func (b *Batcher) lingered(open *batch) {
	b.mu.Lock()
	if b.open[open.topic] != open {
		b.mu.Unlock()
		return // it was filled meanwhile
	}
	delete(b.open, open.topic)
	b.sends.Add(1)
	b.mu.Unlock()
	b.dispatch(b.ctx, open)
}

// dispatch sends a batch on a goroutine of its own, once there is a slot. When ctx ends before, the wait goes on without
// the caller: others have messages in the batch.
func (b *Batcher) dispatch(ctx context.Context, f *batch) {
	select {
	case b.slots <- struct{}{}:
		go b.send(f)
	case <-ctx.Done():
		go func() {
			b.slots <- struct{}{}
			b.send(f)
		}()
	}
}

// refusedMessage finds the message that a batch was refused for.
var refusedMessage = regexp.MustCompile(`^message (\d+): `)

// send sends a batch and tells everybody. When the server refused it for one message, nothing was stored: that message gets
// the error, and the others are sent without it.
func (b *Batcher) send(f *batch) {
	defer b.sends.Done()
	defer func() { <-b.slots }()
	for {
		err := b.client.ProduceBatch(b.ctx, f.topic, f.messages)
		i, one := f.refused(err)
		if !one {
			for _, done := range f.done {
				done(err)
			}
			return
		}
		f.done[i](err)
		f.messages = append(f.messages[:i:i], f.messages[i+1:]...)
		f.done = append(f.done[:i:i], f.done[i+1:]...)
	}
}

// refused returns the message that the whole batch was refused for, if it is one of several.
func (f *batch) refused(err error) (int, bool) {
	var e *Error
	if !errors.As(err, &e) || e.Status < 400 || e.Status >= 500 || len(f.messages) < 2 {
		return 0, false
	}
	found := refusedMessage.FindStringSubmatch(e.Text)
	if found == nil {
		return 0, false
	}
	i, err := strconv.Atoi(found[1])
	return i, err == nil && i < len(f.messages)
}

// Flush sends what lingers and waits until everything that was sent before is answered.
func (b *Batcher) Flush() {
	b.mu.Lock()
	var all []*batch
	for _, open := range b.open {
		all = append(all, b.takeLocked(open))
	}
	b.sends.Add(len(all))
	b.mu.Unlock()
	for _, f := range all {
		b.dispatch(b.ctx, f)
	}
	b.sends.Wait()
}

// Close takes no more messages, sends what lingers and waits for the answers; when ctx ends before, what is not answered yet
// gets an error and may be stored all the same. Nothing of the batcher is left when it returns.
func (b *Batcher) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, b.cancel)
	defer stop()
	b.Flush()
	b.cancel()
	return ctx.Err()
}
