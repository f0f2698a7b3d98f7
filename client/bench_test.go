package client

import (
	"io"
	"net/http"
	"testing"
)

// immediate answers at once and allocates next to nothing, so that what is measured is the client.
type immediate struct{ status int }

func (i immediate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
	}
	return &http.Response{StatusCode: i.status, Body: http.NoBody, Request: r}, nil
}

func BenchmarkProduce(b *testing.B) {
	c, err := New(oneNode, Options{HTTP: &http.Client{Transport: immediate{202}}})
	if err != nil {
		b.Fatal(err)
	}
	m := Outgoing{Topic: "orders", Key: []byte("customer-42"), Payload: make([]byte, 1024)}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Produce(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAck(b *testing.B) {
	c, err := New(oneNode, Options{HTTP: &http.Client{Transport: immediate{204}}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Ack(b.Context(), "orders", "12:123456:987654321"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	messages := make([]Outgoing, 100)
	for i := range messages {
		messages[i] = Outgoing{Key: []byte("customer-42"), Payload: []byte(`{"item":"coffee","size":"large","price":3.50}`)}
	}
	b.ReportAllocs()
	for b.Loop() {
		appendBatch(nil, messages)
	}
}
