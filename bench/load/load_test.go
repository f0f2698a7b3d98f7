package load

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/server"
)

// host returns a real server behind what may spoil its answers.
func host(t *testing.T, spoil func(http.Handler) http.Handler) *Server {
	t.Helper()
	e, err := engine.Open(t.TempDir(), engine.Options{})
	require.NoError(t, err)
	var h http.Handler = server.New(e, server.Options{})
	if spoil != nil {
		h = spoil(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, e.Close())
	})
	return &Server{Host: strings.TrimPrefix(s.URL, "http://")}
}

// brief is short; nothing is judged by its figures.
func brief(m Mode) Spec {
	return Spec{Mode: m, Clients: 4, Size: 200, Partitions: 3, Duration: 400 * time.Millisecond, Messages: 200}
}

func clean(t *testing.T, r Result) {
	t.Helper()
	require.Positive(t, r.Account.Accepted)
	require.Equal(t, r.Account.Accepted, r.Account.Delivered)
	require.Zero(t, r.Account.Lost+r.Account.Duplicates+r.Account.Strange+r.Account.Refused+r.Account.Unanswered)
	require.Positive(t, r.Messages())
}

// Every mode accounts for every message, over HTTP and embedded, one by one and in batches, closed and open.
func TestModes(t *testing.T) {
	s := host(t, nil)
	for _, mode := range []Mode{Produce, Drain, Full} {
		for _, batch := range []int{1, 10} {
			spec := brief(mode)
			spec.Batch = batch
			if batch == 1 || (&remote{server: s}).batches() {
				r, err := RunServer(spec, s)
				require.NoError(t, err)
				clean(t, r)
			}
			r, err := RunEmbedded(spec, t.TempDir())
			require.NoError(t, err)
			clean(t, r)
			if mode == Produce {
				require.Positive(t, r.Syncs)
			}
		}
	}
	open := brief(Full)
	open.Rate, open.Elsewhere, open.Parked = 500, 20, 20
	r, err := RunServer(open, s)
	require.NoError(t, err)
	clean(t, r)
	require.Positive(t, r.Through.Count)
	r, err = RunEmbedded(open, t.TempDir())
	require.NoError(t, err)
	clean(t, r)
	r, err = RunServer(Spec{Mode: Idle, Elsewhere: 5, Duration: 10 * time.Millisecond}, s)
	require.NoError(t, err)
	require.Zero(t, r.Account.Accepted)
}

// A server that accepts a message and does not store it is found out.
func TestLossIsSeen(t *testing.T) {
	old := stuckLimit
	stuckLimit = 300 * time.Millisecond
	defer func() { stuckLimit = old }()
	n := 0
	s := host(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/produce") {
				if n++; n == 5 {
					w.WriteHeader(http.StatusAccepted)
					return
				}
			}
			h.ServeHTTP(w, r)
		})
	})
	spec := brief(Produce)
	spec.Clients = 1
	r, err := RunServer(spec, s)
	require.ErrorContains(t, err, "1 of")
	require.Equal(t, r.Account.Accepted, r.Account.Delivered+1)
}

// A message that is delivered twice is counted: here an ack is answered and gives the message back instead.
func TestDuplicateIsCounted(t *testing.T) {
	n := 0
	s := host(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/ack") {
				if n++; n == 3 {
					r.URL.RawQuery += "&extend=0"
				}
			}
			h.ServeHTTP(w, r)
		})
	})
	spec := brief(Full)
	spec.Clients, spec.Partitions, spec.Duration = 2, 3, 300*time.Millisecond // it comes again while consumers ask
	r, err := RunServer(spec, s)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Account.Duplicates)
}

// A server that refuses is an error, not a slow server.
func TestRefusal(t *testing.T) {
	s := host(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/produce") {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	_, err := RunServer(brief(Produce), s)
	require.ErrorContains(t, err, "produce was answered 500")
}

func TestValidate(t *testing.T) {
	require.NoError(t, brief(Full).Validate())
	for _, s := range []Spec{
		{Mode: "x"}, {Mode: Full, Clients: 1}, {Mode: Produce, Clients: -1}, {Mode: Produce, Batch: 1001}, {Mode: Produce, Size: 2 << 20},
		{Mode: Produce, Rate: -1}, {Mode: Drain, Rate: 1}, {Mode: Full, Parked: -1},
	} {
		require.Error(t, s.Validate(), "%+v", s)
	}
	_, err := Remote("ftp://x")
	require.Error(t, err)
}

// An open loop charges a stall to every message that was due in it.
func TestOpenLoop(t *testing.T) {
	s := newSchedule(1000, 1)
	first := s.next()
	require.Equal(t, first+int64(time.Millisecond), s.next())
	require.Equal(t, first+int64(2*time.Millisecond), s.next())
	require.Nil(t, newSchedule(0, 1))
	p := &producer{book: new(book), phase: new(phase), schedule: s, batch: 1, template: produceTemplate("h", "t", 1, 0)}
	p.phase.produce.Store(true)
	p.phase.measuring.Store(true)
	s.start -= int64(time.Second) // it is that late
	request, _ := p.next()
	require.NotNil(t, request)
	require.NoError(t, p.reply(answer{status: 202}))
	require.GreaterOrEqual(t, p.samples.produce[0], int64(900*time.Millisecond))
}

// The server that a benchmark starts is the real one.
func TestProcess(t *testing.T) {
	path, err := FindServer("", t.TempDir())
	require.NoError(t, err)
	s, err := StartNarad(path, t.TempDir())
	require.NoError(t, err)
	r, err := RunServer(brief(Full), s)
	require.NoError(t, err)
	clean(t, r)
	_, known := s.CPU()
	_, err = os.Stat("/proc/self/stat")
	require.Equal(t, err == nil, known)
	if before := OwnCPU(); known {
		own, _ := processCPU(os.Getpid())
		require.LessOrEqual(t, before*4/5, own) // kernels account for the two in different ways
		require.LessOrEqual(t, own, OwnCPU()*6/5)
		_, known = processCPU(1 << 22) // above any process ID
		require.False(t, known)
	}
	require.NoError(t, s.Stop())
	_, err = StartNarad(path, t.TempDir(), "--no-such-flag")
	require.ErrorContains(t, err, "no-such-flag")
}
