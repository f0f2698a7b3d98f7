package observe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/server"
)

// ask asks for a path of the page as somebody who may read what mayRead says.
func ask(t *testing.T, r *rig, path string, mayRead func(topic, owner string) bool) *http.Response {
	w := httptest.NewRecorder()
	r.o.ServeStatus(w, httptest.NewRequest("GET", path, nil), mayRead)
	return w.Result()
}

func askData(t *testing.T, r *rig, query string, mayRead func(topic, owner string) bool) (s status) {
	answer := ask(t, r, "/status/data?"+query, mayRead)
	require.Equal(t, 200, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
	return s
}

func names(s status) (all []string) {
	for _, t := range s.Topics.Items {
		all = append(all, t.Name)
	}
	return all
}

func TestStatusData(t *testing.T) {
	r := newRig(t, Config{Node: "n1", Version: "v"})
	for i := range 7 {
		r.topic(fmt.Sprintf("topic-%d", i), 3)
	}
	r.produce("topic-4", 1, 5)
	r.produce("topic-2", 1, 9)
	require.NoError(t, r.e.Ack("topic-4", r.consume("topic-4", 1).Handle))
	r.consume("topic-4", 1)
	r.dispatched("topic-2", 1, 9)
	r.dispatched("topic-4", 1, 5)
	r.poll()
	r.poll()
	r.sample()

	s := askData(t, r, "size=3", everything)
	require.Equal(t, []string{"topic-0", "topic-1", "topic-2"}, names(s))
	require.Equal(t, []int{7, 1, 3}, []int{s.Topics.Found, s.Topics.Page, s.Topics.Pages})
	require.Equal(t, totalStatus{Topics: 7, Partitions: 21, Lag: 13, Leases: 1, Bytes: s.Totals.Bytes}, s.Totals)
	require.Equal(t, "n1", s.Node.Name)
	require.Positive(t, s.Node.Available)
	require.Equal(t, []string{"topic-6"}, names(askData(t, r, "size=3&page=99", everything)), "the last page")
	require.Equal(t, []string{"topic-2", "topic-4"}, names(askData(t, r, "sort=-lag&size=2", everything)))
	require.Equal(t, []string{"topic-6", "topic-5"}, names(askData(t, r, "sort=-name&size=2", everything)))
	require.Equal(t, []string{"topic-3"}, names(askData(t, r, "q=PIC-3", everything)))
	require.Empty(t, names(askData(t, r, "q=%3Cscript", everything)))

	d := askData(t, r, "topic=topic-4", everything).Topic
	require.Equal(t, []int64{0, 5, 0, 4, 1}, []int64{d.Parts[1].Oldest, d.Parts[1].High, d.Parts[1].Frontier, d.Parts[1].Lag, int64(d.Parts[1].Leases)})
	require.True(t, d.Parts[1].Known && d.Parts[1].Open && d.Parts[0].Known)
	require.False(t, d.Parts[0].Open)
	require.Nil(t, askData(t, r, "topic=none", everything).Topic)

	for _, bad := range []string{"sort=secret", "page=0", "page=x", "size=0", "size=201", "size=-1", "sort=--lag"} {
		answer := ask(t, r, "/status/data?"+bad, everything)
		require.Equal(t, 400, answer.StatusCode, bad)
		var e struct{ Error string }
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&e))
		require.NotEmpty(t, e.Error)
	}
}

// Who may not read a topic does not see that it is there, not even in a sum.
func TestStatusShowsWhatOneMayRead(t *testing.T) {
	r := newRig(t, Config{Node: "n1"})
	r.topic("mine", 3)
	r.topic("secret", 4)
	r.produce("secret", 0, 3)
	r.dispatched("secret", 0, 3)
	mine := func(topic, owner string) bool { return topic == "mine" }
	for _, query := range []string{"", "topic=secret", "q=secret", "sort=-lag"} {
		answer := ask(t, r, "/status/data?"+query, mine)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NotContains(t, string(body), "secret", query)
		var s status
		require.NoError(t, json.Unmarshal(body, &s))
		require.Nil(t, s.Node, "figures of the node are for those who may read everything")
		require.Nil(t, s.Topic)
		require.Equal(t, totalStatus{Topics: 1, Partitions: 3}, s.Totals)
	}
	require.Empty(t, names(askData(t, r, "", func(string, string) bool { return false })))
}

// Through the server, with its rules of access.
func TestStatusBehindAuth(t *testing.T) {
	r := newRig(t, Config{})
	r.topic("hers", 3)
	r.topic("other", 3)
	s := r.serve(server.Options{Auth: onlyAnn{}})
	get := func(path, user string) (int, string) {
		request, err := http.NewRequest("GET", s.URL+path, nil)
		require.NoError(t, err)
		if user != "" {
			request.SetBasicAuth(user, "password")
		}
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	for _, path := range []string{"/status", "/status/data", "/status/app.js", "/metrics"} {
		code, _ := get(path, "")
		require.Equal(t, 401, code, path)
	}
	code, body := get("/status/data", "ann")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"hers"`)
	require.NotContains(t, body, `"other"`)
}

// onlyAnn lets everybody in; ann may read one topic.
type onlyAnn struct{}

func (onlyAnn) Authenticate(r *http.Request) (string, error) {
	if user, _, ok := r.BasicAuth(); ok {
		return user, nil
	}
	return "", &server.Error{Status: 401, Text: "who are you?"}
}

func (onlyAnn) May(user string, _ server.Action, topic, _ string) bool {
	return user == "ann" && topic == "hers"
}

// The page is three files that ask nobody else, and says so to the browser.
func TestStatusFiles(t *testing.T) {
	r := newRig(t, Config{})
	for path, kind := range map[string]string{"/status": "text/html", "/status/app.js": "text/javascript", "/status/style.css": "text/css", "/status/data": "application/json"} {
		answer := ask(t, r, path, everything)
		require.Equal(t, 200, answer.StatusCode, path)
		h := answer.Header
		require.Contains(t, h.Get("Content-Type"), kind)
		require.Equal(t, []string{pagePolicy, "nosniff", "no-store"}, []string{h.Get("Content-Security-Policy"), h.Get("X-Content-Type-Options"), h.Get("Cache-Control")})
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		for _, foreign := range []string{"http://", "https://", "innerHTML", "onclick=", "<style", "eval("} {
			text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
			require.NotContains(t, text, foreign, path)
		}
	}
	require.Equal(t, "../status", ask(t, r, "/status/", everything).Header.Get("Location"))
	for _, path := range []string{"/status/web/app.js", "/status/../observe.go", "/status/index.html", "/status/app.js/", "/status/DATA"} {
		require.Equal(t, 404, ask(t, r, path, everything).StatusCode, path)
	}
}

// FuzzStatus asks with any query: it never panics, and answers JSON.
func FuzzStatus(f *testing.F) {
	for _, q := range []string{"", "q=a&sort=-lag&page=2&size=200&topic=t", "page=999999999999999999999", "size=%00", "sort=%2d%2d", "q=%ff%fe"} {
		f.Add(q)
	}
	o, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { o.Close() })
	f.Fuzz(func(t *testing.T, query string) {
		request := httptest.NewRequest("GET", "/status/data", nil)
		request.URL.RawQuery = query
		w := httptest.NewRecorder()
		o.ServeStatus(w, request, everything)
		require.True(t, json.Valid(w.Body.Bytes()))
		require.Contains(t, []int{200, 400}, w.Code)
	})
}
