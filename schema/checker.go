package schema

import (
	"container/list"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// Key names a version of the schema of a topic's incarnation. The same name may mean another topic later; the same key never
// means another document.
type Key struct {
	ID      string // of the incarnation
	Version int
}

// Observer is told of checks, for metrics. It must be quick, and may be called from any number of goroutines at once.
type Observer interface {
	// SchemaStarted reports the start of the check of a message or a document.
	SchemaStarted()
	// SchemaFinished reports its end: how long it took, without the wait for a slot, and in one word why it refused, a
	// [Reason]; empty when it did not.
	SchemaFinished(took time.Duration, reason string)
}

// CheckerOptions configure a checker. The zero value of a field means its default.
type CheckerOptions struct {
	// Slots is how many expensive checks run at once. Default: one per CPU.
	Slots int
	// Wait is how long a check waits for a slot. Default 5 s.
	Wait time.Duration
	// CacheBytes bounds the documents whose compiled form is kept. Default 32 MiB.
	CacheBytes int
	// Observer may be nil.
	Observer Observer
}

// Checker checks messages. It keeps compiled schemas, and bounds how many expensive checks run at once, so that they
// cannot take all CPUs from everything else for long. It may be used from any number of goroutines.
type Checker struct {
	opts  CheckerOptions
	slots chan struct{}

	mu     sync.Mutex
	cached map[Key]*list.Element // of *cachedSchema
	recent *list.List            // most recently used first
	bytes  int
}

// cachedSchema is a schema that is compiled, or being compiled by a goroutine of its own.
type cachedSchema struct {
	key    Key
	size   int
	done   chan struct{} // closed when the rest is set
	schema *Schema
	err    error
}

// NewChecker returns a checker.
func NewChecker(o CheckerOptions) *Checker {
	if o.Slots <= 0 {
		o.Slots = runtime.GOMAXPROCS(0)
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 32 << 20
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return &Checker{opts: o, slots: make(chan struct{}, o.Slots), cached: map[Key]*list.Element{}, recent: list.New()}
}

// Check checks a message against the document of a key, which it compiles at first use. Its errors are of type [*Error];
// [ErrBusy] when no slot became free. ctx ends when the client leaves.
func (c *Checker) Check(ctx context.Context, key Key, topic string, document, message []byte) error {
	s, err := c.compiled(ctx, key, topic, document)
	if err != nil {
		return c.notRun(err)
	}
	run := func() error { return c.observed(func() error { return s.Validate(message) }) }
	if !s.Costly(len(message)) {
		return run()
	}
	return c.inSlot(ctx, run)
}

// Document runs the check of a document in a slot.
func (c *Checker) Document(ctx context.Context, check func() error) error {
	return c.inSlot(ctx, func() error { return c.observed(check) })
}

// inSlot runs something that tells the observer itself.
func (c *Checker) inSlot(ctx context.Context, run func() error) error {
	err := c.InSlot(ctx, run)
	if err == error(ErrBusy) || err == error(errLeft) {
		return c.notRun(err)
	}
	return err
}

// observed tells the observer of a check.
func (c *Checker) observed(check func() error) error {
	c.opts.Observer.SchemaStarted()
	began := time.Now()
	err := check()
	c.opts.Observer.SchemaFinished(time.Since(began), reasonFor(err))
	return err
}

// notRun tells the observer of a check that came to nothing.
func (c *Checker) notRun(err error) error {
	c.opts.Observer.SchemaStarted()
	c.opts.Observer.SchemaFinished(0, reasonFor(err))
	return err
}

func reasonFor(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return string(refused.Reason)
	}
	return ""
}

// InSlot runs something expensive in a slot, for which it waits. It returns [ErrBusy] when none became free in time, and an [*Error]
// when ctx ended first.
func (c *Checker) InSlot(ctx context.Context, run func() error) error {
	select {
	case c.slots <- struct{}{}:
	default:
		late := time.NewTimer(c.opts.Wait)
		defer late.Stop()
		select {
		case c.slots <- struct{}{}:
		case <-late.C:
			return ErrBusy
		case <-ctx.Done():
			return errLeft
		}
	}
	defer func() { <-c.slots }()
	return run()
}

var errLeft = refuse(ReasonCanceled, "the client left while its check was waiting")

// compiled returns the compiled form of a document. Of several who ask for it at once one has it compiled; nobody's leaving stops
// that, since the others wait for it too.
func (c *Checker) compiled(ctx context.Context, key Key, topic string, document []byte) (*Schema, error) {
	entry, mine := c.lookUp(key, len(document))
	if mine {
		go c.fill(entry, topic, document)
	}
	select {
	case <-entry.done:
		return entry.schema, entry.err
	case <-ctx.Done():
		return nil, errLeft
	}
}

func (c *Checker) lookUp(key Key, size int) (entry *cachedSchema, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.cached[key]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*cachedSchema), false
	}
	entry = &cachedSchema{key: key, size: size, done: make(chan struct{})}
	c.cached[key] = c.recent.PushFront(entry)
	c.bytes += size
	for c.bytes > c.opts.CacheBytes && c.recent.Len() > 1 {
		c.removeLocked(c.recent.Back())
	}
	return entry, true
}

func (c *Checker) removeLocked(e *list.Element) {
	old := c.recent.Remove(e).(*cachedSchema)
	delete(c.cached, old.key)
	c.bytes -= old.size
}

// fill compiles the document of an entry. One that fails is not kept, and is tried again.
func (c *Checker) fill(entry *cachedSchema, topic string, document []byte) {
	compile := func() (err error) {
		entry.schema, err = Restore(topic, entry.key.Version, document)
		return err
	}
	if len(document) > payloadCheap {
		entry.err = c.InSlot(context.Background(), compile)
	} else {
		entry.err = compile()
	}
	if entry.err != nil {
		c.mu.Lock()
		if e, ok := c.cached[entry.key]; ok && e.Value == entry {
			c.removeLocked(e)
		}
		c.mu.Unlock()
	}
	close(entry.done)
}

type nobody struct{}

func (nobody) SchemaStarted()                       {}
func (nobody) SchemaFinished(time.Duration, string) {}
