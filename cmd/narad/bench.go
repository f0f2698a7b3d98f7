package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"narad/client"
)

// load is one run of the bench command.
type load struct {
	app     *app
	client  *client.Client
	topic   string
	count   int64
	size    int
	workers int
	batch   int
	consume bool
}

func (a *app) benchCommand() *cobra.Command {
	b := load{app: a}
	cmd := &cobra.Command{
		Use: "bench TOPIC", Short: "Measure how fast a server takes messages, and gives them back",
		Long: `Produce messages to a topic as fast as some workers can, and print the rate and the latencies; with --consume, consume and
acknowledge as many afterwards. The topic must exist and should be empty; the messages stay in it.

Client and server share the machine when they run on one. Each worker waits for an answer before its next request, so the
latencies are those of a closed loop.`,
		Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			switch {
			case b.count < 1:
				return usagef("--count is %d, allowed is 1 and more", b.count)
			case b.size < 1 || b.size > payloadMax:
				return usagef("--size is %d, allowed is 1 to %d", b.size, payloadMax)
			case b.workers < 1 || b.workers > 4096:
				return usagef("--workers is %d, allowed is 1 to 4096", b.workers)
			case b.batch < 1 || b.batch > 1000:
				return usagef("--batch is %d, allowed is 1 to 1000", b.batch)
			}
			b.topic = names[0]
			if b.client, err = a.client(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return b.run(ctx)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&b.count, "count", 10000, "messages")
	f.IntVar(&b.size, "size", 256, "bytes of a message")
	f.IntVar(&b.workers, "workers", 8, "requests at a time")
	f.IntVar(&b.batch, "batch", 1, "messages in a request")
	f.BoolVar(&b.consume, "consume", false, "consume and acknowledge them as well")
	return cmd
}

func (b *load) run(ctx context.Context) error {
	payload := make([]byte, b.size)
	rand.Read(payload)
	err := b.measure(ctx, "produce", func(ctx context.Context, n int64) (int64, error) {
		return n, b.produce(ctx, payload, int(n))
	})
	if err != nil || !b.consume {
		return err
	}
	return b.measure(ctx, "consume and ack", b.take)
}

// produce sends n messages in one request.
func (b *load) produce(ctx context.Context, payload []byte, n int) error {
	m := client.Outgoing{Topic: b.topic, Payload: payload}
	if n == 1 {
		return b.client.Produce(ctx, m)
	}
	messages := make([]client.Outgoing, n)
	for i := range messages {
		messages[i] = m
	}
	return b.client.ProduceBatch(ctx, b.topic, messages)
}

// take consumes up to n messages and acknowledges them; it returns how many.
func (b *load) take(ctx context.Context, n int64) (int64, error) {
	if n == 1 {
		m, err := b.client.Consume(ctx, b.topic, client.ConsumeOptions{Wait: subWait})
		if err != nil {
			return 0, err
		}
		return 1, b.client.Ack(ctx, b.topic, m.Handle)
	}
	messages, err := b.client.ConsumeBatch(ctx, b.topic, client.ConsumeOptions{Wait: subWait, Max: int(min(n, 100))})
	if err != nil {
		return 0, err
	}
	handles := make([]string, len(messages))
	for i, m := range messages {
		handles[i] = m.Handle
	}
	return int64(len(messages)), errors.Join(b.client.Settle(ctx, b.topic, client.VerbAck, handles)...)
}

// measure has the workers do something until count messages are through, and prints how long it took.
func (b *load) measure(ctx context.Context, what string, request func(ctx context.Context, n int64) (int64, error)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	progress := newProgress(b.app.stderr)
	total := newHistogram()
	var mu sync.Mutex // guards total, progress, left and done
	left, done := b.count, int64(0)
	took := func(want, got int64) { // what did not come is left for another request
		mu.Lock()
		defer mu.Unlock()
		left, done = left+want-got, done+got
		progress.count("messages", done, b.count)
	}
	next := func() (want int64) {
		mu.Lock()
		defer mu.Unlock()
		want = min(int64(b.batch), left)
		left -= want
		return want
	}
	var workers sync.WaitGroup
	began := time.Now()
	for range b.workers {
		workers.Go(func() {
			own := newHistogram()
			for ctx.Err() == nil {
				want := next()
				if want == 0 {
					break
				}
				start := time.Now()
				got, err := request(ctx, want)
				if err != nil {
					stop(err)
					break
				}
				own.RecordValue(int64(time.Since(start)))
				took(want, got)
			}
			mu.Lock()
			defer mu.Unlock()
			total.Merge(own)
		})
	}
	workers.Wait()
	elapsed := time.Since(began)
	progress.clear()
	if done > 0 {
		if err := b.print(what, done, elapsed, total); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return errors.New("interrupted")
		}
		return context.Cause(ctx)
	}
	return nil
}

// newHistogram holds durations from a microsecond to ten minutes with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

func (b *load) print(what string, n int64, elapsed time.Duration, h *hdrhistogram.Histogram) error {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)).Round(time.Microsecond) }
	rate := float64(n) / elapsed.Seconds()
	return b.app.print("%s: %d messages of %d bytes in %s: %.0f a second, %.1f MiB/s; request p50 %s, p95 %s, p99 %s, max %s\n",
		what, n, b.size, elapsed.Round(time.Millisecond), rate, rate*float64(b.size)/(1<<20), at(50), at(95), at(99), fmt.Sprint(at(100)))
}
