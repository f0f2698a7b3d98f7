package realfs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"narad/engine"
	"narad/record"
	"narad/sim/disk"
	"narad/vfs"
)

// Config says how much is tried. The zero value of a field means its default.
type Config struct {
	Dir         string // where the directories are made; it must exist
	Seed        uint64 // of the clients, the cuts and what survives them; goroutines and disks do as they like
	Personality disk.Personality
	Lives       int           // of a round, each from an image of the one before; default 2
	Run         time.Duration // of a life's traffic; default 400 ms
	Cuts        int           // of a life, at random changes; default 5
	Draws       int           // of a cut, images of a loss of power; default 5
	Enumerate   int           // up to so many ways for a loss of power to go, all of them are looked at; default 16

	spoil func(vfs.FS) vfs.FS // for tests: a bug between the engine and its files
}

func (c Config) withDefaults() Config {
	c.Lives, c.Run = cmp.Or(c.Lives, 2), cmp.Or(c.Run, 400*time.Millisecond)
	c.Cuts, c.Draws, c.Enumerate = cmp.Or(c.Cuts, 5), cmp.Or(c.Draws, 5), cmp.Or(c.Enumerate, 16)
	return c
}

// Counts is what rounds came to.
type Counts struct {
	Rounds, Lives, Cuts, Changes    int
	Messages, Accepted, Acks        int
	Images, Killed, Power, Graceful int
	Enumerated                      int // cuts of which every image was looked at
	Delivered, Settled, Back        int
	OldestKilled, OldestPower       time.Duration // of the acks that came back
}

// Failure is a violation that an image showed. The image is in Dir as it was left, in "image", with the facts in "facts.json".
type Failure struct {
	Dir string
	Err error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the violation.
func (f *Failure) Unwrap() error { return f.Err }

const (
	imageDir  = "image"
	factsFile = "facts.json"
)

// kept is the file of facts beside an image that failed.
type kept struct {
	Crash Crash  `json:"crash"`
	Error string `json:"error"`
	Facts *Facts `json:"facts"`
}

// keep writes an image and its facts into dir.
func (i *Image) keep(dir string, cause error) error {
	if err := Materialise(i.disk, filepath.Join(dir, imageDir)); err != nil {
		return err
	}
	text, err := json.Marshal(kept{i.Crash, cause.Error(), i.Facts})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, factsFile), text, 0o600)
	}
	return err
}

// Again judges an image that was kept; what is kept stays as it is.
func Again(dir string) (Verdict, error) {
	text, err := os.ReadFile(filepath.Join(dir, factsFile))
	if err != nil {
		return Verdict{}, fmt.Errorf("realfs: %w", err)
	}
	k := kept{Facts: newFacts()}
	if err := json.Unmarshal(text, &k); err != nil {
		return Verdict{}, fmt.Errorf("realfs: %s: %w", factsFile, err)
	}
	work, err := os.MkdirTemp("", "narad-realfs-")
	if err != nil {
		return Verdict{}, fmt.Errorf("realfs: %w", err)
	}
	defer os.RemoveAll(work)
	work = filepath.Join(work, "data")
	if err := CopyDir(filepath.Join(dir, imageDir), work); err != nil {
		return Verdict{}, err
	}
	return Judge(work, k.Facts, k.Crash)
}

// Round runs one engine through its lives and judges images of their crashes. A violation that an image shows comes as a *Failure.
func Round(c Config, counts *Counts) error {
	r := round{config: c.withDefaults(), counts: counts, rng: rand.New(rand.NewPCG(c.Seed, 17))}
	var err error
	if r.dir, err = os.MkdirTemp(c.Dir, "round-"); err != nil {
		return fmt.Errorf("realfs: %w", err)
	}
	counts.Rounds++
	r.shape = drawShape(r.rng)
	var from *Image
	for range r.config.Lives {
		if from, err = r.life(from); err != nil {
			break
		}
	}
	var failure *Failure
	if errors.As(err, &failure) {
		return err
	}
	return cmp.Or(err, remove(r.dir))
}

// round is one data directory through its lives.
type round struct {
	config Config
	counts *Counts
	rng    *rand.Rand
	dir    string
	made   int // directories in dir
	shape  shape
}

// shape is what the clients and the engine of a round are like.
type shape struct {
	options              engine.Options
	topics               []engine.TopicSpec
	producers, consumers int
	size                 int
	pause                time.Duration
}

func drawShape(rng *rand.Rand) shape {
	s := shape{producers: 1 + rng.IntN(4), consumers: 1 + rng.IntN(4), size: 8 << rng.IntN(9), pause: time.Duration(rng.IntN(8)) * time.Millisecond}
	s.options = engine.Options{
		CommitInterval:  time.Duration(10<<rng.IntN(6)) * time.Millisecond,
		SegmentBytes:    4096 << rng.IntN(5),
		WALSegmentBytes: 4096 << rng.IntN(5),
		WALPreallocate:  rng.IntN(2) == 0,
		Codec:           [...]record.Codec{record.CodecNone, record.CodecZstd}[rng.IntN(2)],
	}
	for i := range 1 + rng.IntN(2) {
		s.topics = append(s.topics, engine.TopicSpec{
			Name: fmt.Sprintf("t%d", i), Partitions: 1 + rng.IntN(4), Visibility: 10 * time.Second, MaxAckedAhead: 16 << rng.IntN(6),
		})
	}
	return s
}

func (r *round) newDir() string {
	r.made++
	return filepath.Join(r.dir, fmt.Sprintf("%03d", r.made))
}

// life runs one and returns the image that the next one begins with.
func (r *round) life(from *Image) (next *Image, err error) {
	dir := r.newDir()
	s, err := BeginThrough(dir, from, r.config.Personality, r.shape.options, r.config.spoil)
	if err != nil {
		return nil, r.failed(from, err)
	}
	cuts := r.takeCuts(s)
	lifeErr := r.traffic(s)
	cuts.close()
	r.counts.Lives++
	r.counts.Changes += s.Changes()
	end, graceful := s.Cut(), r.rng.IntN(3) == 0
	if graceful {
		end, err = s.Stop()
	} else {
		err = s.Abandon()
	}
	if err = cmp.Or(lifeErr, err); err != nil {
		return nil, r.failed(from, err)
	}
	r.count(end.facts, from)
	if err := remove(dir); err != nil {
		return nil, err
	}
	return r.judgeAll(cuts.taken, end, graceful)
}

// failed is a violation that a life itself showed: what it began with is kept.
func (r *round) failed(from *Image, cause error) error {
	if from == nil {
		return cause
	}
	dir := filepath.Join(r.dir, "failed")
	if err := from.keep(dir, cause); err != nil {
		return errors.Join(cause, err)
	}
	return &Failure{dir, cause}
}

// cuts takes them at random changes.
type cuts struct {
	mu     sync.Mutex // guards what follows; it is taken within changes
	rng    *rand.Rand
	most   int
	at     int
	gap    int
	closed bool
	taken  []*Cut
}

func (r *round) takeCuts(s *Session) *cuts {
	c := &cuts{rng: rand.New(rand.NewPCG(r.rng.Uint64(), 3)), most: r.config.Cuts, gap: 16}
	c.at = s.Changes() + 1 + c.rng.IntN(c.gap)
	s.OnChange(c.pick, func(cut *Cut) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, cut)
	})
	return c
}

// pick lets gaps grow, so that few cuts are spread over lives of any length.
func (c *cuts) pick(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || n < c.at || len(c.taken) >= c.most {
		return false
	}
	c.at, c.gap = n+1+c.rng.IntN(c.gap), c.gap*2
	return true
}

func (c *cuts) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// count adds what a life did to what it began with.
func (r *round) count(f *Facts, from *Image) {
	began := 0
	if from != nil {
		began = len(from.Facts.Messages)
	}
	r.counts.Messages += len(f.Messages) - began
	for _, m := range f.Messages[began:] {
		if m.Accepted {
			r.counts.Accepted++
		}
	}
	for _, p := range f.Parts {
		r.counts.Acks += len(p.Acked)
	}
}

// judgeAll judges images of all cuts and picks one of them for the next life.
func (r *round) judgeAll(taken []*Cut, end *Cut, graceful bool) (next *Image, err error) {
	seen := 0
	judge := func(i *Image) error {
		if seen++; r.rng.IntN(seen) == 0 {
			next = i
		}
		return r.judge(i)
	}
	if graceful {
		if err := errors.Join(judge(end.Stopped()), judge(end.Least())); err != nil {
			return nil, err
		}
	} else {
		taken = append(taken, end)
	}
	for _, cut := range taken {
		if err := r.judgeCut(cut, judge); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (r *round) judgeCut(cut *Cut, judge func(*Image) error) error {
	r.counts.Cuts++
	if err := judge(cut.Kill()); err != nil {
		return err
	}
	if cut.Outcomes() > uint64(r.config.Enumerate) {
		err := judge(cut.Least())
		for range r.config.Draws - 1 {
			err = cmp.Or(err, judge(cut.Draw(chooser{r.rng})))
		}
		return err
	}
	r.counts.Enumerated++
	var err error
	cut.Enumerate(func(i *Image) bool {
		err = judge(i)
		return err == nil
	})
	return err
}

func (r *round) judge(i *Image) error {
	dir := r.newDir()
	r.counts.Images++
	v, err := i.Judge(dir)
	if err != nil {
		keep := filepath.Join(r.dir, "failed")
		if keepErr := i.keep(keep, err); keepErr != nil {
			return errors.Join(err, keepErr)
		}
		return &Failure{keep, err}
	}
	c := r.counts
	c.Delivered, c.Settled, c.Back = c.Delivered+v.Delivered, c.Settled+v.Settled, c.Back+v.Back
	switch i.Crash {
	case Killed:
		c.Killed++
		c.OldestKilled = max(c.OldestKilled, v.Oldest)
	case PowerLoss:
		c.Power++
		c.OldestPower = max(c.OldestPower, v.Oldest)
	default:
		c.Graceful++
	}
	return remove(dir)
}

type chooser struct{ *rand.Rand }

func (c chooser) Choose(n int) int { return c.IntN(n) }

// traffic lets clients at the session for a while and returns the first violation that one of them saw.
func (r *round) traffic(s *Session) error {
	var (
		stop    atomic.Bool
		clients sync.WaitGroup
		mu      sync.Mutex
		first   error
	)
	client := func(step func(*rand.Rand) error) {
		rng := rand.New(rand.NewPCG(r.rng.Uint64(), 5))
		clients.Go(func() {
			for !stop.Load() {
				if err := step(rng); err != nil {
					mu.Lock()
					first = cmp.Or(first, err)
					mu.Unlock()
					return
				}
				time.Sleep(time.Duration(rng.Int64N(int64(r.shape.pause) + 1)))
			}
		})
	}
	for _, spec := range r.shape.topics {
		if err := s.CreateTopic(spec); err != nil {
			return err
		}
	}
	for range r.shape.producers {
		client(func(rng *rand.Rand) error { return r.produce(s, rng) })
	}
	for range r.shape.consumers {
		var held []Lease
		client(func(rng *rand.Rand) error { return r.consume(s, rng, &held) })
	}
	time.Sleep(r.config.Run)
	stop.Store(true)
	clients.Wait()
	return first
}

func (r *round) topic(rng *rand.Rand) engine.TopicSpec {
	return r.shape.topics[rng.IntN(len(r.shape.topics))]
}

func (r *round) produce(s *Session, rng *rand.Rand) error {
	topic, partition := r.topic(rng), engine.AnyPartition
	if rng.IntN(3) == 0 {
		partition = int32(rng.IntN(topic.Partitions))
	}
	sizes := []int{rng.IntN(r.shape.size)}
	for rng.IntN(4) == 0 {
		sizes = append(sizes, rng.IntN(2*r.shape.size))
	}
	return s.Produce(topic.Name, partition, sizes...)
}

// consume takes some messages and acks most of them, in any order; others it gives back, keeps for later, or forgets.
func (r *round) consume(s *Session, rng *rand.Rand, held *[]Lease) error {
	topic, partition := r.topic(rng), engine.AnyPartition
	if rng.IntN(4) == 0 {
		partition = int32(rng.IntN(topic.Partitions))
	}
	got, err := s.Consume(topic.Name, partition, time.Duration(rng.IntN(10))*time.Millisecond, 1+rng.IntN(8))
	if err != nil {
		return err
	}
	*held = append(*held, got...)
	rng.Shuffle(len(*held), func(i, j int) { (*held)[i], (*held)[j] = (*held)[j], (*held)[i] })
	for _, t := range slices.Clone(*held) {
		switch n := rng.IntN(20); {
		case n < 12:
			err = s.Ack(t)
		case n < 13:
			err = s.Nack(t)
		case n < 14:
			if err := s.Extend(t); err != nil {
				return err
			}
			continue
		case n < 15: // forgotten
		default:
			continue // kept
		}
		*held = slices.DeleteFunc(*held, func(h Lease) bool { return h == t })
		if err != nil {
			return err
		}
	}
	return err
}
