package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each line is a request and the status that it gets. Bodies of errors have one of three forms, checked below.
func TestStatuses(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	const octets, client = "Content-Type: application/octet-stream", asClient
	form := "Content-Type: application/x-www-form-urlencoded"
	big := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		method, path, body, header string
		status                     int
	}{
		// The content guard comes before routing (narad-facts 1.1).
		{"POST", "/v1/topics/orders/produce", "x", "", 415},
		{"POST", "/v1/topics/orders/produce", "x", form, 415},
		{"POST", "/v1/topics/orders/produce", "x", "Content-Type: text/plain; application/json", 415},
		{"POST", "/v1/topics/orders/produce", "x", octets, 202},
		{"POST", "/v1/topics/orders/produce", "x", "Content-Type: application/json", 202},
		{"POST", "/v1/topics/orders/produce", "x", "Content-Type: Application/JSON; charset=utf-8", 202},
		{"POST", "/v1/topics/orders/produce", "x", client, 202},
		{"POST", "/v1/topics/orders/ack", "", "", 415},
		{"POST", "/nowhere", "", "", 415},
		{"PUT", "/v1/topics", "", "", 415},
		{"PATCH", "/v1/topics/orders", "", "", 415},
		{"PUT", "/v1/topics", "", client, 405},
		{"POST", "/healthz", "", client, 405},
		{"HEAD", "/v1/topics/orders/consume", "", "", 405},
		{"POST", "/v1/topics/orders/consume", "", client, 405},
		{"GET", "/v1/topics/orders/produce", "", "", 405},
		{"GET", "/v1/topics/orders/ack", "", "", 405},
		{"GET", "/", "", "", 404},
		{"GET", "/v1", "", "", 404},
		{"GET", "/v1/topics/", "", "", 404},
		{"GET", "/healthz", "", "", 200},

		// Produce (API-08, narad-facts 1.4).
		{"POST", "/v1/topics/orders/produce?key=a", "x", client, 202},
		{"POST", "/v1/topics/orders/produce?key=%FF%00", "x", client, 202},
		{"POST", "/v1/topics/orders/produce?partition=2", "x", client, 202},
		{"POST", "/v1/topics/orders/produce?partition=2&key=a", "x", client, 202},
		{"POST", "/v1/topics/orders/produce", "", client, 400},
		{"POST", "/v1/topics/orders/produce?key=", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?key=a&key=b", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=1&partition=1", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=3", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=-1", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=%2B1", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=1.0", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?partition=4294967296", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?key=a;partition=1", "x", client, 400},
		{"POST", "/v1/topics/orders/produce?key=%zz", "x", client, 400},
		{"POST", "/v1/topics/absent/produce", "x", client, 404},
		{"POST", "/v1/topics/absent/produce?partition=99", "x", client, 404},
		{"POST", "/v1/topics/ORDERS/produce", "x", client, 404},
		{"POST", "/v1/topics/orders/produce", big, client, 202},
		{"POST", "/v1/topics/orders/produce", big + "x", client, 413},
		{"POST", "/v1/topics/absent/produce", big + "x", client, 404},

		// Consume (API-06, narad-facts 1.5).
		{"GET", "/v1/topics/absent/consume", "", "", 404},
		{"GET", "/v1/topics/orders/consume?wait=soon", "", "", 400},
		{"GET", "/v1/topics/orders/consume?wait=10", "", "", 400},
		{"GET", "/v1/topics/orders/consume?wait=-1s", "", "", 400},
		{"GET", "/v1/topics/orders/consume?wait=", "", "", 400},
		{"GET", "/v1/topics/orders/consume?wait=1s&wait=1s", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=3", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=x", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=-1", "", "", 400},
		{"GET", "/v1/topics/orders/consume?offset=0", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=-1", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=x", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=", "", "", 400},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=0&max=1", "", client, 400},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=9223372036854775807", "", "", 204},
		{"GET", "/v1/topics/orders/consume?max=10", "", "", 400},
		{"HEAD", "/v1/topics/orders/consume?max=10", "", "", 400},
		{"HEAD", "/v1/topics/orders/consume?max=10", "", client, 405},
		{"GET", "/v1/topics/orders/consume?max=0", "", client, 400},
		{"GET", "/v1/topics/orders/consume?max=101", "", client, 400},
		{"GET", "/v1/topics/orders/consume?max=ten", "", client, 400},
		{"GET", "/v1/topics/orders/consume?max=", "", client, 400},

		// Ack, extend, nack (API-04, API-15, narad-facts 1.6).
		{"POST", "/v1/topics/orders/ack", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=", "", client, 400},
		{"POST", "/v1/topics/orders/ack", `{"receipt_handles":["0:0:1"]}`, client, 200},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:0", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=-1:0:1", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:-1:1", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:9223372036854775808", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=a:b:c", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=maybe", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=TRUE", "", client, 400},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=true", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=1", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=0", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=false", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&extend=", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=99:0:1", "", client, 410},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1&receipt_handle=junk", "", client, 410},
		{"POST", "/v1/topics/absent/ack?receipt_handle=0:0:1", "", client, 404},
		{"POST", "/v1/topics/absent/ack?receipt_handle=junk", "", client, 400},

		// Topics (narad-facts 1.3).
		{"GET", "/v1/topics/orders", "", "", 200},
		{"GET", "/v1/topics/absent", "", "", 404},
		{"GET", "/v1/topics?limit=0", "", "", 400},
		{"GET", "/v1/topics?limit=-1", "", "", 400},
		{"GET", "/v1/topics?limit=", "", "", 400},
		{"GET", "/v1/topics?limit=many", "", "", 400},
		{"GET", "/v1/topics?limit=100000", "", "", 200},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		name := fmt.Sprintf("%s %s %.40q %s", c.method, c.path, c.body, c.header)
		r := n.do(c.method, c.path, []byte(c.body), headers...)
		require.Equal(t, c.status, r.status, "%s: %s", name, r.body)
		requireForm(t, name, c.method, r)
	}
}

// requireForm checks the form of an answer: 202 and 204 are bare; an unknown route and a wrong method are plain
// text; all else is one line of JSON with its length (narad-facts 1.1).
func requireForm(t *testing.T, name, method string, r reply) {
	t.Helper()
	switch {
	case r.status == 202:
		require.Empty(t, r.body, name)
		require.Equal(t, "0", r.header.Get("Content-Length"), name)
	case r.status == 204:
		require.Empty(t, r.body, name)
		require.Empty(t, r.header.Get("Content-Type"), name)
	case r.status == 405:
		require.NotEmpty(t, r.header.Get("Allow"), name)
		require.True(t, strings.HasPrefix(r.header.Get("Content-Type"), "text/plain"), name)
	case r.status == 404 && !strings.Contains(r.body, "absent") && !strings.Contains(r.body, "ORDERS"):
		require.Equal(t, "404 page not found\n", r.body, name)
		require.True(t, strings.HasPrefix(r.header.Get("Content-Type"), "text/plain"), name)
	case method == "HEAD":
		require.Empty(t, r.body, name)
	default:
		require.Equal(t, "application/json", r.header.Get("Content-Type"), name)
		require.Equal(t, int64(len(r.body)), r.length, name)
		require.Equal(t, 1, strings.Count(r.body, "\n"), name)
		if r.status >= 400 {
			var e map[string]string
			require.NoError(t, json.Unmarshal([]byte(r.body), &e), name)
			require.Len(t, e, 1, name)
			require.NotEmpty(t, e["error"], name)
		}
	}
}

// narad-facts 1.3: bounds and defaults of a new topic, strict bodies. RET-01 for the retention.
func TestCreateTopic(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"taken"`)
	long := strings.Repeat("n", 200)
	for _, c := range []struct {
		body   string
		status int
		want   string // what an error must contain
	}{
		{`{"name":"a"}`, 201, ""},
		{`{"name":"` + long + `"}`, 201, ""},
		{`{"name":"` + long + `n"}`, 400, "name"},
		{`{"name":"."}`, 400, "name"},
		{`{"name":".."}`, 400, "name"},
		{`{"name":"a/b"}`, 400, "name"},
		{`{"name":"a b"}`, 400, "name"},
		{`{"name":""}`, 400, "name"},
		{`{}`, 400, "name"},
		{`null`, 400, "name"},
		{``, 400, ""},
		{`[]`, 400, ""},
		{`{"name":"b"`, 400, ""},
		{`{"name":7}`, 400, "name"},
		{`{"name":"b","color":"red"}`, 400, "color"},
		{`{"name":"b"} {}`, 400, "goes on"},
		{`{"name":"b"} x`, 400, "goes on"},
		{`{"name":"b"}` + "\n ", 201, ""},
		{`{"name":"taken"}`, 409, "taken"},
		{`{"name":"TAKEN"}`, 409, "taken"},
		{`{"name":"c","partitions":2}`, 400, "partitions"},
		{`{"name":"c","partitions":0}`, 400, "partitions"},
		{`{"name":"c","partitions":109}`, 400, "partitions"},
		{`{"name":"c","partitions":3.5}`, 400, "partitions"},
		{`{"name":"c","partitions":99999999999999999999}`, 400, "partitions"},
		{`{"name":"c","partitions":108}`, 201, ""},
		{`{"name":"d","retention_ms":3599999}`, 400, "retention_ms"},
		{`{"name":"d","retention_ms":-1}`, 400, "retention_ms"},
		{`{"name":"d","retention_ms":3600000}`, 201, ""},
		{`{"name":"e","visibility_timeout_ms":0}`, 400, "visibility_timeout_ms"},
		{`{"name":"e","visibility_timeout_ms":-5}`, 400, "visibility_timeout_ms"},
		{`{"name":"e","visibility_timeout_ms":9223372036854775807}`, 400, "visibility_timeout_ms"},
		{`{"name":"e","visibility_timeout_ms":1}`, 201, ""},
		{`{"name":"f","max_in_flight_per_partition":-1}`, 400, "max_in_flight_per_partition"},
		{`{"name":"f","max_in_flight_per_partition":9223372036854775807}`, 400, "max_in_flight_per_partition"},
		{`{"name":"f","max_acked_ahead_per_partition":-1}`, 400, "max_acked_ahead_per_partition"},
		{`{"name":"f","schema":{}}`, 501, "schema"},
		{`{"name":"f","parent":"taken"}`, 501, "children"},
		{`{"name":"f","parent":"absent"}`, 404, "absent"},
		{`{"name":"f","fanout_delay_ms":1}`, 400, "fanout_delay_ms"},
		{`{"name":"f","schema":null,"parent":null,"fanout_delay_ms":null,"owner":{"any":1}}`, 201, ""},
		{`{"name":"g","padding":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "1048576"},
	} {
		r := n.post("/v1/topics", c.body)
		require.Equal(t, c.status, r.status, "%.80s: %s", c.body, r.body)
		requireForm(t, c.body, "POST", r)
		require.Contains(t, r.body, c.want, c.body)
	}
}

// CFG-03, CFG-04, CFG-05, CFG-07: what an absent field, a zero and a number mean.
func TestTopicObject(t *testing.T) {
	n := newNode(t, Options{})
	before := time.Now().Unix()
	for _, c := range []struct{ name, fields, want string }{
		{"defaults", ``,
			`"partitions":3,"retention_ms":604800000,"visibility_timeout_ms":30000,"max_in_flight_per_partition":1024,"max_acked_ahead_per_partition":1024`},
		{"zeros", `,"retention_ms":0,"max_in_flight_per_partition":0,"max_acked_ahead_per_partition":0`,
			`"partitions":3,"retention_ms":0,"visibility_timeout_ms":30000,"max_in_flight_per_partition":1024,"max_acked_ahead_per_partition":1024`},
		{"numbers", `,"partitions":5,"retention_ms":7200000,"visibility_timeout_ms":1500,"max_in_flight_per_partition":7,"max_acked_ahead_per_partition":8`,
			`"partitions":5,"retention_ms":7200000,"visibility_timeout_ms":1500,"max_in_flight_per_partition":7,"max_acked_ahead_per_partition":8`},
	} {
		created := n.post("/v1/topics", fmt.Sprintf(`{"name":%q%s}`, c.name, c.fields))
		require.Equal(t, 201, created.status, created.body)
		require.Contains(t, created.body, c.want)
		var body map[string]any
		require.NoError(t, json.Unmarshal([]byte(created.body), &body))
		require.Regexp(t, "^[0-9a-f]{16}$", body["id"])
		require.GreaterOrEqual(t, int64(body["created_at"].(float64)), before)
		require.NotContains(t, body, "role", "absent in the answer of a create")
		require.NotContains(t, body, "owner", "absent while security is off")

		info := n.get("/v1/topics/" + c.name)
		require.Contains(t, info.body, c.want)
		require.Contains(t, info.body, `"role":"standalone"`)
		require.Contains(t, info.body, body["id"])
	}
}

func TestPartitionStats(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	for range 3 {
		n.produceTo("orders", "?partition=1", "x")
		n.consumeOne("orders", "&partition=1") // visible, so committed
	}
	r := n.get("/v1/topics/orders")
	require.Contains(t, r.body, `"schema_version":0,"partition_stats":[`+
		`{"index":0,"segments":0,"oldest_offset":0,"next_offset":0,"high_watermark":0,"size_bytes":0,"owner_node":"narad","status":"ok"},`+
		`{"index":1,"segments":1,"oldest_offset":0,"next_offset":3,"high_watermark":3,"size_bytes":`)
	require.Regexp(t, `"index":1,.*"oldest_segment_at":1[0-9]{9},`, r.body)
	require.NotContains(t, r.body, "partial")
	one := n.get("/v1/topics/orders?partition=2")
	require.Contains(t, one.body, `"partition_stats":[{"index":2,`)
	require.NotContains(t, one.body, `"index":1`)
	require.Equal(t, 400, n.get("/v1/topics/orders?partition=3").status)
}

func TestListTopics(t *testing.T) {
	n := newNode(t, Options{})
	require.Equal(t, `{"topics":[],"next_page_token":""}`+"\n", n.get("/v1/topics").body)
	for _, name := range []string{"d", "b", "a", "c", "e"} {
		n.topic(`"name":"` + name + `"`)
	}
	var names, pages []string
	for token, first := "", true; first || token != ""; first = false {
		r := n.get("/v1/topics?limit=2&page_token=" + token)
		require.Equal(t, 200, r.status, r.body)
		var page struct {
			Topics []struct{ Name string }
			Next   string `json:"next_page_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.body), &page))
		for _, topic := range page.Topics {
			names = append(names, topic.Name)
		}
		pages = append(pages, fmt.Sprint(len(page.Topics)))
		token = page.Next
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, names)
	require.Equal(t, []string{"2", "2", "1"}, pages)
	require.Contains(t, n.get("/v1/topics?limit=5").body, `"next_page_token":""`)
	require.NotContains(t, n.get("/v1/topics?limit=4").body, `"next_page_token":""`)
}

// API-01, API-03, DEL-18: the way of one message, with the handle that names its lease.
func TestDeliverAndAck(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders","visibility_timeout_ms":60000`)
	before := time.Now().Unix()
	n.produceTo("orders", "?partition=2&key=k", "first")
	n.produceTo("orders", "?partition=2", "second")

	m := n.consumeOne("orders", "")
	require.Equal(t, "orders", m.Topic)
	require.Equal(t, 2, m.Partition)
	require.Equal(t, int64(0), m.Offset)
	require.Equal(t, "k", *m.Key)
	require.Equal(t, `"first"`, string(m.Payload))
	require.Regexp(t, `^2:0:[1-9][0-9]*$`, m.Handle)
	require.GreaterOrEqual(t, m.Timestamp, before)
	require.LessOrEqual(t, m.Timestamp, time.Now().Unix())

	second := n.consumeOne("orders", "&partition=2")
	require.Equal(t, int64(1), second.Offset)
	require.Nil(t, second.Key)

	settle := func(handle, extend string) int {
		return n.post("/v1/topics/orders/ack?receipt_handle="+handle+"&extend="+extend, "").status
	}
	require.Equal(t, 204, settle(m.Handle, "true"))
	require.Equal(t, 204, settle(m.Handle, "1"))
	require.Equal(t, 204, settle(m.Handle, ""))
	require.Equal(t, 410, settle(m.Handle, ""), "settled before (API-04)")
	require.Equal(t, 410, settle(m.Handle, "true"))
	require.Equal(t, 410, settle(m.Handle, "0"))

	// A nack makes the message available at once, under another handle (DEL-05).
	require.Equal(t, 204, settle(second.Handle, "0"))
	again := n.consumeOne("orders", "")
	require.Equal(t, int64(1), again.Offset)
	require.NotEqual(t, second.Handle, again.Handle)
	require.Equal(t, 410, settle(second.Handle, ""))
	require.Equal(t, 204, settle(again.Handle, "false"))
	require.Equal(t, 204, n.get("/v1/topics/orders/consume").status)

	// A handle carries no topic; with another one it is nobody's.
	n.topic(`"name":"other"`)
	n.produceTo("orders", "?partition=0", "third")
	third := n.consumeOne("orders", "")
	require.Equal(t, 410, n.post("/v1/topics/other/ack?receipt_handle="+third.Handle, "").status)
	require.Equal(t, 204, settle(third.Handle, ""))
}

// API-15: a handle that does not parse reaches no shard; one that does, and names no lease, reaches its own.
func TestMalformedHandleTouchesNoShard(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	n.produceTo("orders", "?partition=0", "x")
	m := n.consumeOne("orders", "")
	for _, bad := range []string{"", "0", "0:0", "0:0:", ":0:1", "0:0:0", "00:0:1", "0:00:1", "0:0:01", "%2B0:0:1", "-0:0:1", "0:0:1:2", "0:0:1%20",
		"0:-1:1", "0x0:0:1", "2147483648:0:1", "0:9223372036854775808:1", m.Handle + "0000000000000", "%FF:0:1"} {
		for _, extend := range []string{"", "true", "0"} {
			r := n.post("/v1/topics/orders/ack?extend="+extend+"&receipt_handle="+bad, "")
			require.Equal(t, 400, r.status, "%q: %s", bad, r.body)
		}
	}
	require.Zero(t, n.probed.Load())
	require.Equal(t, 410, n.post("/v1/topics/orders/ack?receipt_handle=0:0:1", "").status)
	require.Equal(t, int32(1), n.probed.Load())
	require.Equal(t, 204, n.post("/v1/topics/orders/ack?receipt_handle="+m.Handle, "").status, "the live lease is untouched")
}

// API-01: a parked consume is answered when a message comes.
func TestLongPoll(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	answers := make(chan reply, 1)
	go func() {
		resp, err := n.http.Get(n.url + "/v1/topics/orders/consume?wait=10s")
		if err != nil {
			answers <- reply{body: err.Error()}
			return
		}
		answers <- readReply(t, resp)
	}()
	select {
	case r := <-answers:
		require.Fail(t, "answered without a message", r.body)
	case <-time.After(200 * time.Millisecond):
	}
	n.produceTo("orders", "", "late")
	r := <-answers
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, `"late"`, string(parseMessage(t, r.body).Payload))
}

// API-02: 204 after the wait; when the in-flight cap is hit; when the acked-ahead cap is hit and the hole is leased.
func TestNothingToConsume(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"capped","max_in_flight_per_partition":1,"visibility_timeout_ms":60000`)
	start := time.Now()
	require.Equal(t, 204, n.get("/v1/topics/capped/consume?wait=300ms").status)
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)

	n.produceTo("capped", "?partition=0", "1")
	n.produceTo("capped", "?partition=0", "2")
	n.consumeOne("capped", "")
	require.Equal(t, 204, n.get("/v1/topics/capped/consume?wait=300ms").status, "in-flight cap")

	n.topic(`"name":"ahead","max_acked_ahead_per_partition":2,"visibility_timeout_ms":60000`)
	for range 4 {
		n.produceTo("ahead", "?partition=0", "x")
	}
	hole := n.consumeOne("ahead", "")
	for range 2 {
		m := n.consumeOne("ahead", "")
		require.Equal(t, 204, n.post("/v1/topics/ahead/ack?receipt_handle="+m.Handle, "").status)
	}
	require.Equal(t, 204, n.get("/v1/topics/ahead/consume?wait=300ms").status, "acked-ahead cap, hole leased")
	require.Equal(t, 204, n.post("/v1/topics/ahead/ack?receipt_handle="+hole.Handle, "").status)
	require.Equal(t, int64(3), n.consumeOne("ahead", "").Offset)
}

func TestWaitIsClamped(t *testing.T) {
	n := newNode(t, Options{MaxConsumeWait: 50 * time.Millisecond})
	n.topic(`"name":"orders"`)
	r := n.get("/v1/topics/orders/consume?wait=1h")
	require.Equal(t, 204, r.status)
	require.Equal(t, "50ms", r.header.Get("X-Narad-Wait-Clamped"))
	r = n.get("/v1/topics/orders/consume?wait=50ms")
	require.Equal(t, 204, r.status)
	require.NotContains(t, r.header, "X-Narad-Wait-Clamped")
	require.Equal(t, 10*time.Second, New(n.engine, Options{}).opts.MaxConsumeWait)
}

// FAIL-19, API-08: 500 once the ingress log failed, until a restart; no internals in the answer, and the cause in the log, not once
// for each.
func TestProduceFailed(t *testing.T) {
	var logged bytes.Buffer
	n := newNode(t, Options{Logger: textLogger(&logged)})
	n.topic(`"name":"orders"`)
	n.produceTo("orders", "", "kept")
	kept := n.consumeOne("orders", "")
	n.disk.failSync.Store(true)
	for range 2 {
		r := n.post("/v1/topics/orders/produce", "x")
		require.Equal(t, 500, r.status)
		require.Equal(t, `{"error":"produce failed"}`+"\n", r.body)
		n.disk.failSync.Store(false) // the failure latches
	}
	require.Equal(t, 204, n.post("/v1/topics/orders/ack?receipt_handle="+kept.Handle, "").status)
	require.Equal(t, 1, strings.Count(logged.String(), "/secret/path"), logged.String())
}

// A 500 says nothing about the machine, and its cause is logged.
func TestInternalErrorText(t *testing.T) {
	var logged bytes.Buffer
	n := newNode(t, Options{Logger: textLogger(&logged)})
	n.disk.failSync.Store(true)
	r := n.post("/v1/topics", `{"name":"orders"}`)
	require.Equal(t, 500, r.status)
	require.Equal(t, `{"error":"internal error"}`+"\n", r.body)
	require.Contains(t, logged.String(), "/secret/path")
}

// A closed engine did nothing: 503 (API-05 and FAIL-05 for the ack).
func TestClosedEngine(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	require.NoError(t, n.engine.Close())
	for _, r := range []reply{
		n.post("/v1/topics", `{"name":"late"}`),
		n.post("/v1/topics/orders/produce", "x"),
		n.get("/v1/topics/orders/consume"),
		n.post("/v1/topics/orders/ack?receipt_handle=0:0:1", ""),
		n.get("/v1/topics/orders"),
	} {
		require.Equal(t, 503, r.status, r.body)
		require.Equal(t, "1", r.header.Get("Retry-After"))
	}
}
