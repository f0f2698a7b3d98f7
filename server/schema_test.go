package server

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/metastore"
	"narad/schema"
)

func newSchemas(n *node, o schema.CheckerOptions) *topicSchemas {
	return NewSchemas(n.engine.Metastore(), schema.NewChecker(o)).(*topicSchemas)
}

// withSchema creates a topic with a schema.
func (n *node) withSchema(name, document string) engine.Topic {
	n.t.Helper()
	t, err := n.engine.CreateTopic(engine.TopicSpec{Name: name, Partitions: 3, Schema: json.RawMessage(document)})
	require.NoError(n.t, err)
	return t
}

// When all slots are taken for too long nothing is stored, in words that clients know.
func TestSchemaBusy(t *testing.T) {
	n := newNode(t, Options{})
	checker := schema.NewChecker(schema.CheckerOptions{Slots: 1, Wait: time.Millisecond})
	n.server.opts.Schemas = NewSchemas(n.engine.Metastore(), checker)
	n.withSchema("orders", `{"type":"string"}`)
	large := make([]byte, 20<<10)
	for i := range large {
		large[i] = 'x'
	}
	large[0], large[len(large)-1] = '"', '"'
	held, release := make(chan struct{}), make(chan struct{})
	go checker.InSlot(context.Background(), func() error { close(held); <-release; return nil })
	<-held
	r := n.do("POST", "/v1/topics/orders/produce", large, asClient)
	require.Equal(t, 503, r.status)
	require.Equal(t, `{"error":"schema: validation capacity busy, retry"}`+"\n", r.body)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Equal(t, 202, n.post("/v1/topics/orders/produce", `"small"`).status)
	close(release)
	require.Eventually(t, func() bool { return n.do("POST", "/v1/topics/orders/produce", large, asClient).status == 202 }, time.Minute, time.Millisecond)
}

// overtaken is a store in which somebody else adds versions just before.
type overtaken struct {
	metastore.Store
	others []string
}

func (o *overtaken) AppendSchema(name, id string, base int, document json.RawMessage) (int, error) {
	if len(o.others) > 0 {
		other := o.others[0]
		o.others = o.others[1:]
		if _, err := o.Store.AppendSchema(name, id, base, json.RawMessage(other)); err != nil {
			return 0, err
		}
	}
	return o.Store.AppendSchema(name, id, base, document)
}

func TestSchemaChangesThatRace(t *testing.T) {
	base := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name   string
		others []string
		base   *int64
		want   int // status, 0 for none
	}{
		{"alone", nil, nil, 0},
		{"checked again", []string{`{"type":"number"}`}, nil, 0},
		{"checked again, and not compatible any more", []string{`{"type":["number","null"]}`}, nil, 409},
		{"with the version that was seen", []string{`{"type":"number"}`}, base(1), 409},
		{"overtaken twice", []string{`{"type":"number"}`, `{"type":"number","x":1}`}, nil, 409},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, Options{})
			topic := n.withSchema("orders", `{"type":"integer"}`)
			s := NewSchemas(&overtaken{n.engine.Metastore(), c.others}, schema.NewChecker(schema.CheckerOptions{}))
			err := s.Append(t.Context(), &topic, c.base, json.RawMessage(`{"type":["number","string"]}`))
			all := n.engine.Metastore().Schemas("orders")
			if c.want == 0 {
				require.NoError(t, err)
				require.JSONEq(t, `{"type":["number","string"]}`, string(all[len(all)-1].Document))
				return
			}
			require.Equal(t, c.want, statusOf(err), "%v", err)
			require.NotEqual(t, `{"type":["number","string"]}`, string(all[len(all)-1].Document))
		})
	}
}

// B201: a schema belongs to an incarnation. What is remembered of one is never taken for that of a namesake, whichever of the
// two a request has looked up.
func TestSchemaOfANamesake(t *testing.T) {
	n := newNode(t, Options{})
	s := newSchemas(n, schema.CheckerOptions{})
	old := n.withSchema("orders", `{"type":"string"}`)
	require.NoError(t, s.Check(t.Context(), &old, []byte(`"x"`)))
	require.NoError(t, n.engine.DeleteTopic("orders"))
	young := n.withSchema("orders", `{"type":"number"}`)
	_ = s.Check(t.Context(), &old, []byte(`"x"`)) // a late request, whose message the engine will refuse
	require.Equal(t, 400, statusOf(s.Check(t.Context(), &young, []byte(`"x"`))))
	require.NoError(t, s.Check(t.Context(), &young, []byte(`1`)))

	require.NoError(t, n.engine.DeleteTopic("orders"))
	n.topic(`"name":"orders"`)
	none, err := n.engine.Topic("orders")
	require.NoError(t, err)
	require.NoError(t, s.Check(t.Context(), &none, []byte(`anything`)))
	version, document := s.Current(&none)
	require.Zero(t, version)
	require.Nil(t, document)
}

// A change counts for the next message.
func TestSchemaChangeCountsAtOnce(t *testing.T) {
	n := newNode(t, Options{})
	s := newSchemas(n, schema.CheckerOptions{})
	topic := n.withSchema("orders", `{"type":"string"}`)
	require.Error(t, s.Check(t.Context(), &topic, []byte(`null`)))
	require.NoError(t, s.Append(t.Context(), &topic, nil, json.RawMessage(`{"type":["string","null"]}`)))
	require.NoError(t, s.Check(t.Context(), &topic, []byte(`null`)))
	require.NoError(t, s.Append(t.Context(), &topic, nil, json.RawMessage(`{"type":["string","null"],"title":"t"}`)))
	version, _ := s.Current(&topic)
	require.Equal(t, 2, version)
}

// A client that leaves while its check waits is nobody's fault.
func TestSchemaCheckIsLeft(t *testing.T) {
	n := newNode(t, Options{})
	s := newSchemas(n, schema.CheckerOptions{})
	topic := n.withSchema("orders", `{"type":"string"}`)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	err := s.Check(ctx, &topic, []byte(`"x"`))
	require.True(t, err == nil || err == errClientLeft, "%v", err)
}

// A topic without a schema costs next to nothing.
func BenchmarkNoSchema(b *testing.B) {
	n := newNode(b, Options{})
	s := newSchemas(n, schema.CheckerOptions{})
	n.topic(`"name":"orders"`)
	topic, err := n.engine.Topic("orders")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(b.Context(), &topic, nil); err != nil {
			b.Fatal(err)
		}
	}
}
