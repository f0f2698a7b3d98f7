package conformance

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"narad/auth"
	"narad/engine"
	"narad/metastore"
	"narad/schema"
	"narad/server"
)

// serve runs a server in this process, with security off.
func serve(t *testing.T, o server.Options) string { return serveNode(t, o, false) }

func serveNode(t *testing.T, o server.Options, secured bool) string {
	t.Helper()
	e, err := engine.Open(t.TempDir(), engine.Options{})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o.Schemas = server.NewSchemas(e.Metastore(), schema.NewChecker(schema.CheckerOptions{}))
	if secured {
		a, err := auth.New(e.Metastore(), auth.Options{Cost: bcrypt.MinCost})
		require.NoError(t, err)
		hash, err := a.Hash(ctx, adminPassword)
		require.NoError(t, err)
		require.NoError(t, e.Metastore().CreateUser(metastore.User{Name: auth.RootName, PasswordHash: hash, Root: true}))
		o.Auth = server.NewAuth(a)
	}
	s := server.New(e, o)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, e.Close())
	})
	return "http://" + ln.Addr().String()
}

func TestInProcess(t *testing.T) {
	require.NotZero(t, play(t, Target{URL: serve(t, server.Options{}), Features: []string{"open"}}))
}

func TestInProcessSecured(t *testing.T) {
	url := serveNode(t, server.Options{}, true)
	require.NotZero(t, play(t, Target{URL: url, User: auth.RootName, Password: adminPassword, Features: []string{"secured"}}))
}

func TestInProcessSmallCaps(t *testing.T) {
	url := serve(t, server.Options{MaxConsumesPerIdentity: 2, MaxProducesPerIdentity: 2, MaxBatchBodyBytes: 1})
	require.NoError(t, Run(t.Context(), Target{URL: url, Features: []string{"small-caps"}}, storyOf(t, "caps")))
}

// Every route of the server's table is asked for by a fixture, and every status of the table of statuses is expected by one,
// but for those that need another node (421, 502), a disk that fails (500) or a client that left (499).
func TestFixturesAreComplete(t *testing.T) {
	var asked []string
	statuses := map[int]bool{}
	for _, s := range stories(t) {
		for _, step := range s.Steps {
			statuses[step.Expect.Status] = true
			line, _, _ := strings.Cut(step.Do, "?")
			asked = append(asked, line)
		}
	}
	for _, pattern := range server.Routes() {
		require.True(t, slices.ContainsFunc(asked, func(line string) bool { return fits(pattern, line) }), "no fixture asks for %s", pattern)
	}
	for _, status := range []int{200, 201, 202, 204, 400, 404, 405, 409, 410, 413, 415, 429, 431, 501, 503} {
		require.True(t, statuses[status], "no fixture expects %d", status)
	}
}

// fits reports whether a request line is one of a pattern like "GET /v1/topics/{topic}".
func fits(pattern, line string) bool {
	p, l := strings.Split(pattern, "/"), strings.Split(line, "/")
	if len(p) != len(l) {
		return false
	}
	for i := range p {
		if p[i] != l[i] && !strings.HasPrefix(p[i], "{") {
			return false
		}
	}
	return true
}

// A story that is not true is told so, whatever is wrong with it.
func TestStoriesCanFail(t *testing.T) {
	target := Target{URL: serve(t, server.Options{}), Features: []string{"open"}}
	create := `{"do": "POST /v1/topics", "json": {"name": "${t}"}, "expect": {"status": 201, "json": %s}}`
	for _, c := range []struct{ step, want string }{
		{`{"do": "GET /healthz", "expect": {"status": 204}}`, "status 200, not 204"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "json": {"status": "fine"}}}`, `body.status is "ok"`},
		{`{"do": "GET /healthz", "expect": {"status": 200, "json": {"state": "<any>"}}}`, "body.state is missing"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "json": {"status": "<absent>"}}}`, "body.status is there"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "json": {"status": "<int>"}}}`, `not "<int>"`},
		{`{"do": "GET /healthz", "expect": {"status": 200, "json": ["ok"]}}`, "not an array of 1"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "headers": {"X-Missing": "x"}}}`, "header X-Missing is missing"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "headers": {"Content-Type": null}}}`, "header Content-Type is there"},
		{`{"do": "GET /healthz", "expect": {"status": 200, "headers": {"Content-Type": "text/html"}}}`, "not \"text/html\""},
		{`{"do": "GET /healthz", "expect": {"status": 200, "text": "ok"}}`, "the body is not"},
		{`{"do": "GET /nowhere", "expect": {"status": 404}}`, "not application/json"},
		{`{"do": "GET /v1/topics/${t}", "expect": {"status": 404, "plain": true}}`, "not text/plain"},
		{`{"do": "GET /v1/topics/${lost}", "expect": {"status": 404}}`, "${lost} was never saved"},
		{fmt.Sprintf(create, `{"partitions": 4}`), "body.partitions is 3"},
		{fmt.Sprintf(create, `{"id": "/^x/"}`), "body.id is"},
		{fmt.Sprintf(create, `{"created_at": "<handle>"}`), "body.created_at is"},
		{`{"do": "GET /healthz", "expect": {"status": 200}, "save": {"x": "nothing.0"}}`, "the answer has no nothing.0"},
		{`{"do": "GET /v1/topics/${t}/consume", "park": true, "expect": {"status": 200}}`, "a parked request: status 404"},
	} {
		story, err := Load(oneFile(`{"steps": [` + c.step + `]}`))
		require.NoError(t, err, c.step)
		require.ErrorContains(t, Run(t.Context(), target, story[0]), c.want, c.step)
	}
	for _, bad := range []string{`{`, `{"steps": [{}]}`, `{"step": []}`, `{"steps": [{"do": "GET", "expect": {"status": 200}}]}`} {
		_, err := Load(oneFile(bad))
		require.Error(t, err, bad)
	}
	require.ErrorIs(t, Run(t.Context(), target, Story{Needs: []string{"secured"}}), ErrSkipped)
}

// oneFile is a directory with one fixture.
func oneFile(text string) fs.FS { return fstest.MapFS{"story.json": {Data: []byte(text)}} }
