package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"narad/engine"
)

// traced returns the spans of events that are a second apart, as lines "name start-end outcome", by trace and start.
func traced(t *testing.T, events ...engine.Event) (lines []string) {
	seen := tracetest.NewSpanRecorder()
	tr := startTracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen)))
	begin := time.Unix(1000, 0)
	tr.mu.Lock()
	tr.closed = true // run here, at the times that the test wants
	close(tr.queue)
	tr.mu.Unlock()
	tr.done.Wait()
	for i, v := range events {
		tr.follow(v, begin.Add(time.Duration(i)*time.Second))
	}
	for _, m := range tr.order {
		m.end("unfinished", begin.Add(99*time.Second))
	}
	spans := seen.Ended()
	sort.SliceStable(spans, func(i, j int) bool {
		a, b := spans[i], spans[j]
		if !a.StartTime().Equal(b.StartTime()) {
			return a.StartTime().Before(b.StartTime())
		}
		if !a.EndTime().Equal(b.EndTime()) {
			return a.EndTime().After(b.EndTime())
		}
		return !a.Parent().IsValid()
	})
	traces := map[string]int{}
	for _, s := range spans {
		id := s.SpanContext().TraceID().String()
		if _, ok := traces[id]; !ok {
			traces[id] = len(traces)
		}
		text := fmt.Sprintf("%d %s %.0f-%.0f", traces[id], s.Name(), s.StartTime().Sub(begin).Seconds(), s.EndTime().Sub(begin).Seconds())
		for _, a := range s.Attributes() {
			if a.Key == "narad.outcome" || a.Key == "messaging.message.offset" {
				text += " " + a.Value.Emit()
			}
		}
		lines = append(lines, text)
	}
	require.NoError(t, tr.close())
	return lines
}

func TestTraceOfAMessage(t *testing.T) {
	key := engine.Key{Topic: "orders", Partition: 2}
	require.Equal(t, []string{
		"0 message orders 0-6 7 ack",
		"0 dispatch 0-1 stored",
		"0 wait 1-2 delivered",
		"0 process 2-3 7 nack",
		"0 wait 3-4 delivered",
		"0 process 4-5 7 expired",
		"0 process 5-6 7 ack",
	}, traced(t,
		engine.Accepted{Key: key, Seq: 40}, engine.Dispatched{Key: key, Seq: 40, Offset: 7}, engine.Delivered{Key: key, Offset: 7, Nonce: 1},
		engine.LeaseEnded{Key: key, Offset: 7, Nonce: 1, Cause: engine.CauseNack}, engine.Delivered{Key: key, Offset: 7, Nonce: 2},
		engine.Delivered{Key: key, Offset: 7, Nonce: 3}, engine.Settled{Key: key, Offset: 7, Nonce: 3}))
	require.Equal(t, []string{
		"0 message orders 0-3 5 ack", // committed before its producer was answered
		"0 wait 0-2 delivered",
		"0 process 2-3 5 ack",
	}, traced(t, engine.Dispatched{Key: key, Seq: 1, Offset: 5}, engine.Accepted{Key: key, Seq: 1},
		engine.Delivered{Key: key, Offset: 5, Nonce: 1}, engine.Settled{Key: key, Offset: 5, Nonce: 1}))
	require.Equal(t, []string{
		"0 message orders 0-1 3 ack", // from before the restart
		"0 process 0-1 3 ack",
	}, traced(t, engine.Delivered{Key: key, Offset: 3, Nonce: 1}, engine.Settled{Key: key, Offset: 3, Nonce: 1}))
}

// A tracer follows so many messages and lets go of the oldest, whatever consumers do.
func TestTracerIsBounded(t *testing.T) {
	tr := startTracer(sdktrace.NewTracerProvider())
	require.NoError(t, tr.close())
	now := time.Now()
	for i := range 3 * tracedMax {
		key := engine.Key{Topic: "t", Partition: int32(i % 3)}
		tr.follow(engine.Accepted{Key: key, Seq: uint64(i)}, now)
		if i%2 == 0 {
			tr.follow(engine.Dispatched{Key: key, Seq: uint64(i), Offset: int64(i)}, now)
		}
		tr.follow(engine.Dispatched{Key: key, Seq: 1 << 40, Offset: int64(i) + 1<<40}, now)
	}
	require.LessOrEqual(t, len(tr.order), tracedMax)
	require.LessOrEqual(t, len(tr.accepted), tracedMax)
	require.LessOrEqual(t, len(tr.stored), tracedMax)
	require.LessOrEqual(t, len(tr.early), tracedMax)
}

// Traces are off by default, go where the standard variables say, and what cannot be done is an error.
func TestTracesAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		env  string
		on   bool
		fail string
	}{
		{"", false, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector:4318/v1/traces", true, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 OTEL_TRACES_EXPORTER=none", false, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_SDK_DISABLED=true", false, ""},
		{"OTEL_TRACES_EXPORTER=zipkin", false, `OTEL_TRACES_EXPORTER is "zipkin", allowed are otlp and none`},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc", allowed is http/protobuf`},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		on, err := tracesWanted(func(name string) string { return env[name] })
		require.Equal(t, c.on, on, c.env)
		if c.fail != "" {
			require.EqualError(t, err, c.fail)
		} else {
			require.NoError(t, err)
		}
	}
}

// A real message of a real engine arrives at a collector.
func TestTracesReachACollector(t *testing.T) {
	got := make(chan string, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.URL.Path + " " + r.Header.Get("Content-Type")
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	r := newRig(t, Config{Version: "1"})
	require.False(t, r.o.Coarse(), "a trace needs every step")
	r.topic("t", 3)
	r.produce("t", 0, 1)
	require.NoError(t, r.e.Ack("t", r.consume("t", 0).Handle))
	r.close()
	require.Equal(t, "/v1/traces application/x-protobuf", <-got)
}
