package observe

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/segment"
	"narad/server"
	"narad/vfs"
	"narad/wal"
)

// steps are the events of every message, and those of every commit.
func steps() []engine.Event {
	key := engine.Key{Topic: "topic-0500", Partition: 2}
	return []engine.Event{
		engine.WAL{Event: wal.BatchSynced{First: 1, Next: 9, Records: 8, Bytes: 8192, Took: time.Millisecond}},
		engine.Log{Key: key, Event: segment.Committed{Records: 8, Bytes: 9000, Took: time.Millisecond, Syncs: 1, SyncTook: time.Millisecond}},
		engine.Stored{Key: key, Records: 8, Bytes: 8192, Took: time.Millisecond},
		engine.Delivered{Key: key, Offset: 7, Nonce: 9, Bytes: 1024, At: 5},
		engine.Settled{Key: key, Offset: 7, Nonce: 9, At: 6},
		engine.LeaseEnded{Key: key, Cause: engine.CauseNack},
		engine.Consumer{Event: committer.WindowWritten{Key: committer.Key(key), SnapshotAt: 7, End: 8}},
	}
}

func fullObserver(t testing.TB) *Observer {
	o, err := New(Config{})
	require.NoError(t, err)
	for i := range 1000 {
		o.Listen(engine.TopicCreated{Topic: engine.Topic{Name: "topic-" + string([]byte{'0' + byte(i/1000), '0' + byte(i/100%10), '0' + byte(i/10%10), '0' + byte(i%10)}), Partitions: 3}})
	}
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

// What every message costs the observer is counting: nothing is allocated.
func TestListenAllocatesNothing(t *testing.T) {
	o := fullObserver(t)
	require.True(t, o.Coarse(), "without debug lines and traces the engine may leave the details out")
	for _, v := range steps() {
		require.Zero(t, testing.AllocsPerRun(200, func() { o.Listen(v) }), "%T", v)
	}
	r := server.Request{Route: "POST /v1/topics/{topic}/produce", Method: "POST", Status: 202, Took: time.Millisecond, In: 1024}
	require.Zero(t, testing.AllocsPerRun(200, func() { o.Started(); o.Finished(r); o.Waited("topic-0500", server.WaitHit, time.Second) }))
}

func BenchmarkListen(b *testing.B) {
	o := fullObserver(b)
	for _, v := range steps() {
		name := typeName(v)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Listen(v)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					o.Listen(v)
				}
			})
		})
	}
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		r := server.Request{Route: "POST /v1/topics/{topic}/produce", Method: "POST", Status: 202, Took: time.Millisecond, In: 1024}
		for b.Loop() {
			o.Started()
			o.Finished(r)
		}
	})
}

func typeName(v engine.Event) string {
	switch v.(type) {
	case engine.WAL:
		return "BatchSynced"
	case engine.Log:
		return "Committed"
	case engine.Stored:
		return "Stored"
	case engine.Delivered:
		return "Delivered"
	case engine.Settled:
		return "Settled"
	case engine.LeaseEnded:
		return "LeaseEnded"
	}
	return "WindowWritten"
}

// A scrape of 1,000 topics with 3 partitions each.
func BenchmarkScrape(b *testing.B) {
	o := fullObserver(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := o.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// How far the disk is behind acks is measured from the oldest ack that a write brings over; acks that come while it is under way
// wait for the next one.
func TestLateness(t *testing.T) {
	var l lateness
	window := func(snapshot, end int64) (time.Duration, bool) {
		return l.written(committer.WindowWritten{SnapshotAt: env.Instant(snapshot), End: env.Instant(end)})
	}
	out := func(end int64) (time.Duration, bool) {
		return l.writtenOut(committer.WrittenOut{Start: env.Instant(end - 1), End: env.Instant(end)})
	}
	is := func(want time.Duration) func(time.Duration, bool) {
		return func(got time.Duration, ok bool) {
			t.Helper()
			require.Equal(t, want > 0, ok)
			require.Equal(t, want, got)
		}
	}
	waiting := func(now int64) [2]time.Duration {
		cache, disk := l.waiting(env.Instant(now))
		return [2]time.Duration{cache, disk}
	}
	is(0)(window(5, 6))
	require.Equal(t, [2]time.Duration{}, waiting(9))
	l.acked(10)
	l.acked(20)
	require.Equal(t, [2]time.Duration{15, 15}, waiting(25))
	l.acked(31)
	is(22)(window(30, 32))
	require.Equal(t, [2]time.Duration{9, 30}, waiting(40), "31 is not in the page cache, 10 not on the disk")
	is(40)(out(50))
	require.Equal(t, [2]time.Duration{29, 29}, waiting(60), "31 was not in the page cache and so not in the writeout")
	is(39)(window(69, 70))
	is(49)(out(80))
	require.Equal(t, [2]time.Duration{}, waiting(90))
	is(0)(out(95))
}

// A source that hangs costs its own figures, not those of the others, is counted, and is not asked again (narad-facts 3).
func TestASourceThatHangs(t *testing.T) {
	o, err := New(Config{})
	require.NoError(t, err)
	var asked, others atomic.Int32
	hang := make(chan struct{})
	l := &loop{name: "vitals", limit: 20 * time.Millisecond, o: o, sources: []*source{
		{name: "slow", read: func(ctx context.Context) error { asked.Add(1); <-hang; return nil }},
		{name: "well", read: func(ctx context.Context) error { others.Add(1); return nil }},
	}}
	l.round(nil)
	l.round(nil)
	require.Equal(t, []int32{1, 2}, []int32{asked.Load(), others.Load()})
	r := &rig{o: o}
	families := gather(t, r)
	require.Equal(t, 2.0, value(t, families, "narad_errors_total", "component=metrics kind=slow_timeout"))
	require.NotContains(t, families, "narad_poller_last_success_timestamp_seconds", "the loop was never well")
	close(hang)
	require.Eventually(t, func() bool { return !l.sources[0].busy.Load() }, time.Minute, time.Millisecond)
	l.limit = 10 * time.Second
	l.round(nil)
	require.InDelta(t, float64(time.Now().Unix()), value(t, gather(t, r), "narad_poller_last_success_timestamp_seconds", "loop=vitals"), 60)
	require.NoError(t, o.Close())
}

// WAL-29, OBS-02: a failed ingress log shows, and a restart clears it.
func TestFailedIngressLogShows(t *testing.T) {
	r := newRig(t, Config{})
	r.topic("t", 3)
	require.NoError(t, r.e.Close())
	disk := &failingDisk{FS: vfs.OS{}}
	r.open(engine.Options{Env: env.OS().WithFS(disk)})
	r.poll()
	require.Equal(t, 0.0, value(t, gather(t, r), "narad_ingress_wal_failed", ""))
	disk.fails.Store(true)
	require.ErrorIs(t, r.e.Produce(engine.Message{Topic: "t", Payload: []byte("p")}), engine.ErrProduceFailed)
	disk.fails.Store(false)
	r.poll()
	families := gather(t, r)
	require.Equal(t, 1.0, value(t, families, "narad_ingress_wal_failed", ""))
	require.Equal(t, 1.0, value(t, families, "narad_errors_total", "component=ingress kind=wal_failed"))
	page := r.o.statusFor(statusQuery{order: "name", page: 1, size: 1}, everything)
	require.Contains(t, page.Node.WALFailed, "planted")
	require.True(t, page.Node.Troubles[0].Severe)
	_ = r.e.Close() // it cannot be clean
	r.open(engine.Options{})
	r.poll()
	require.Equal(t, 0.0, value(t, gather(t, r), "narad_ingress_wal_failed", ""))
}

func everything(string, string) bool { return true }

// failingDisk fails the syncs of the ingress log while fails is set.
type failingDisk struct {
	vfs.FS
	fails atomic.Bool
}

func (d *failingDisk) OpenRoot(path string, create bool) (vfs.Dir, error) {
	dir, err := d.FS.OpenRoot(path, create)
	return failingDir{dir, d}, err
}

type failingDir struct {
	vfs.Dir
	disk *failingDisk
}

func (d failingDir) OpenDir(name string) (vfs.Dir, error) {
	dir, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return failingDir{dir, d.disk}, nil
}

func (d failingDir) Create(name string) (vfs.File, error) { return d.wrap(name)(d.Dir.Create(name)) }
func (d failingDir) Open(name string) (vfs.File, error)   { return d.wrap(name)(d.Dir.Open(name)) }

func (d failingDir) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil || !strings.Contains(name, ".wal") {
			return f, err
		}
		return failingFile{f, d.disk}, nil
	}
}

type failingFile struct {
	vfs.File
	disk *failingDisk
}

func (f failingFile) Sync() error {
	if f.disk.fails.Load() {
		return planted
	}
	return f.File.Sync()
}

// What a node with 300 idle topics pays: the description every five seconds, and a sample every two.
func BenchmarkIdle(b *testing.B) {
	o, err := New(Config{})
	require.NoError(b, err)
	e, err := engine.Open(b.TempDir(), engine.Options{Listener: o.Listen, Coarse: true})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, e.Close())
		require.NoError(b, o.Close())
	})
	o.engine.Store(e)
	for i := range 300 {
		_, err := e.CreateTopic(engine.TopicSpec{Name: fmt.Sprint("topic-", i), Partitions: 3})
		require.NoError(b, err)
	}
	b.Run("describe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			o.reconcile(e)
		}
	})
	b.Run("sample", func(b *testing.B) {
		b.ReportAllocs()
		at := time.Now()
		for b.Loop() {
			at = at.Add(rateStep)
			o.rates.sample(at)
		}
	})
}
