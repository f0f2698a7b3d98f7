package observe

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/server"
)

// rig is an engine with an observer whose loops run when the test says so.
type rig struct {
	t   *testing.T
	dir string
	o   *Observer
	e   *engine.Engine
	log *bytes.Buffer // read it after close
	at  time.Time     // of the next sample
}

func newRig(t *testing.T, c Config) *rig {
	r := &rig{t: t, dir: t.TempDir(), log: &bytes.Buffer{}, at: time.Now()}
	c.DataDir = r.dir
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	}
	var err error
	r.o, err = New(c)
	require.NoError(t, err)
	r.open(engine.Options{})
	t.Cleanup(r.close)
	return r
}

func (r *rig) open(opts engine.Options) {
	opts.Listener, opts.Coarse, opts.Tally = r.o.Listen, r.o.Coarse(), r.o.Tally()
	e, err := engine.Open(r.dir, opts)
	require.NoError(r.t, err)
	r.e = e
	r.o.engine.Store(e)
	r.sample()
}

func (r *rig) close() {
	if r.e != nil {
		require.NoError(r.t, r.e.Close())
		require.NoError(r.t, r.o.Close())
		r.e = nil
	}
}

// poll runs every loop once.
func (r *rig) poll() {
	for _, l := range r.o.newLoops(r.e) {
		l.round(nil)
	}
}

// sample lets one step of the rates pass.
func (r *rig) sample() {
	r.o.rates.sample(r.at)
	r.at = r.at.Add(rateStep)
}

func (r *rig) topic(name string, partitions int) {
	_, err := r.e.CreateTopic(engine.TopicSpec{Name: name, Partitions: partitions})
	require.NoError(r.t, err)
}

func (r *rig) produce(topic string, partition int32, n int) {
	messages := make([]engine.Message, n)
	for i := range messages {
		messages[i] = engine.Message{Topic: topic, Partition: partition, Key: []byte("key"), Payload: fmt.Appendf(nil, "payload %d", i)}
	}
	require.NoError(r.t, r.e.ProduceBatch(topic, messages))
}

func (r *rig) consume(topic string, partition int32) *engine.Delivery {
	d, err := r.e.Consume(&engine.ConsumeRequest{Topic: topic, Partition: partition, Wait: 10 * time.Second})
	require.NoError(r.t, err)
	return d
}

// dispatched waits until a partition holds so many messages.
func (r *rig) dispatched(topic string, partition int32, hw int64) {
	require.Eventually(r.t, func() bool {
		v, err := r.e.Describe(topic)
		return err == nil && v.Partitions[partition].HighWatermark >= hw
	}, 10*time.Second, time.Millisecond)
}

// serve puts a server around it.
func (r *rig) serve(o server.Options) *httptest.Server {
	o.Observer, o.Metrics, o.StatusPage = r.o, r.o.Handler(), r.o.ServeStatus
	s := httptest.NewServer(http.HandlerFunc(server.New(r.e, o).ServeHTTP))
	r.t.Cleanup(s.Close)
	return s
}
