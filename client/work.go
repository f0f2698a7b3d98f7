package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// WorkOptions configure [Client.Work]. The zero value of every field means its default.
type WorkOptions struct {
	Workers   int           // handlers that run at a time; default 8
	Partition *int          // nil takes from all
	Wait      time.Duration // of one request for messages; default 10 s
	// Visibility is the visibility timeout of the topic: leases are renewed at a third of it. Default: the server is asked.
	Visibility time.Duration
	// Drain is how long handlers may go on when the work is to end. Then their context ends too. Default 10 s.
	Drain time.Duration
	// Report is told of what goes wrong and does not end the work: requests that failed after all their tries, leases that
	// were lost, errors of handlers. It may be called by several goroutines at once.
	Report func(error)
}

// ErrNack is what a handler returns, or wraps, to give its message back without a report.
var ErrNack = errors.New("give the message back")

// Work consumes a topic: it keeps up to o.Workers handlers busy, each with one message, until ctx ends. It acknowledges a
// message when its handler returns nil and gives it back, to be delivered again at once, when it returns an error. While a
// handler runs, the lease of its message is renewed; when the lease is lost nevertheless, the context of the handler ends
// with the cause [ErrLeaseLost], and somebody else has the message.
//
// Work asks for as many messages as there are free workers, so that none waits behind another. When ctx ends, it asks for no
// more, lets the handlers come to an end, and returns nil; nothing of it runs on. It returns an error at once when the server
// refuses: the topic does not exist, or the user may not consume it.
func (c *Client) Work(ctx context.Context, topic string, o WorkOptions, handle func(context.Context, *Message) error) error {
	setDefault(&o.Workers, 8)
	setDefault(&o.Wait, 10*time.Second)
	setDefault(&o.Drain, 10*time.Second)
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Visibility == 0 {
		t, err := c.Topic(ctx, topic)
		if err != nil {
			return untilDone(ctx, err)
		}
		o.Visibility = time.Duration(t.VisibilityMs) * time.Millisecond
	}
	w := &work{client: c, topic: topic, opts: o, handle: handle, free: make(chan struct{}, o.Workers)}
	for range o.Workers {
		w.free <- struct{}{}
	}
	var stop context.CancelFunc
	w.handlers, stop = context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	err := w.fetch(ctx)
	drained := time.AfterFunc(o.Drain, stop)
	defer drained.Stop()
	w.running.Wait()
	return untilDone(ctx, err)
}

// untilDone is nil for whatever failed because the context had ended.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// work is one run of Work.
type work struct {
	client   *Client
	topic    string
	opts     WorkOptions
	handle   func(context.Context, *Message) error
	free     chan struct{}   // a token for each worker without a message
	handlers context.Context // of handlers and what settles their messages
	running  sync.WaitGroup
}

// fetch gets messages for free workers until the context ends or the server refuses.
func (w *work) fetch(ctx context.Context) error {
	for failures := 0; ; {
		free := w.wait(ctx)
		if free == 0 {
			return nil
		}
		got, err := w.client.ConsumeBatch(ctx, w.topic, ConsumeOptions{Wait: w.opts.Wait, Partition: w.opts.Partition, Max: free})
		for i := range got {
			w.running.Go(func() { w.run(&got[i]) })
		}
		for range free - len(got) {
			w.free <- struct{}{}
		}
		switch {
		case err == nil || errors.Is(err, ErrEmpty):
			failures = 0
		case ctx.Err() != nil:
			return nil
		case !retryable(err):
			return err
		default:
			w.opts.Report(err)
			failures++
			sleep(ctx, w.client.pause(failures, asError(err)))
		}
	}
}

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{}
}

// wait waits for a free worker and takes all that are free, up to one batch.
func (w *work) wait(ctx context.Context) (free int) {
	select {
	case <-w.free:
		free = 1
	case <-ctx.Done():
		return 0
	}
	for ; free < settleMax; free++ {
		select {
		case <-w.free:
		default:
			return free
		}
	}
	return free
}

// run handles one message and settles it.
func (w *work) run(m *Message) {
	defer func() { w.free <- struct{}{} }()
	ctx, lose := context.WithCancelCause(w.handlers)
	defer lose(nil)
	stop := w.renew(ctx, m, lose)
	err := w.handle(ctx, m)
	stop()
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		w.opts.Report(fmt.Errorf("[p%d @%d]: %w while it was handled", m.Partition, m.Offset, ErrLeaseLost))
		return
	}
	w.settle(m, err)
}

// settle acknowledges a message that was handled, or gives it back. It is done also while the work ends.
func (w *work) settle(m *Message, handled error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.handlers), w.opts.Visibility)
	defer cancel()
	settle := w.client.Ack
	if handled != nil {
		settle = w.client.Nack
		if !errors.Is(handled, ErrNack) {
			w.opts.Report(fmt.Errorf("[p%d @%d] was not handled: %w", m.Partition, m.Offset, handled))
		}
	}
	if err := settle(ctx, m.Topic, m.Handle); err != nil {
		w.opts.Report(fmt.Errorf("[p%d @%d] was not settled and comes again: %w", m.Partition, m.Offset, err))
	}
}

// renew keeps the lease of a message until stop is called, which waits for a renewal in flight. When the lease is lost it
// ends the handler's context and renews no more.
func (w *work) renew(ctx context.Context, m *Message, lose context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() {
		every := max(w.opts.Visibility/3, time.Millisecond)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		renewed := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			began := time.Now()
			err := w.extend(ctx, m, every)
			switch {
			case err == nil:
				renewed = began
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrLeaseLost), !retryable(err), time.Since(renewed) > w.opts.Visibility:
				lose(errors.Join(ErrLeaseLost, err))
				return
			}
		}
	})
	return func() {
		cancel()
		renewals.Wait()
	}
}

// extend renews a lease once; one that takes longer than the time to the next renewal is given up.
func (w *work) extend(ctx context.Context, m *Message, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return w.client.Extend(ctx, m.Topic, m.Handle)
}
