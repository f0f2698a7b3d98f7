package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"narad/client"
)

func ExampleClient() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer web.Close()
	c, err := client.New(web.URL, client.Options{Name: "example"})
	if err != nil {
		panic(err)
	}
	err = c.Produce(context.Background(), client.Outgoing{Topic: "orders", Payload: []byte("hello")})
	fmt.Println(err, errors.Is(err, client.ErrServer))
	// Output: <nil> false
}

// Several nodes of one server, with a user.
func ExampleNew() {
	c, err := client.New("https://narad-0.example:7942,https://narad-1.example:7942", client.Options{
		Name: "billing/1.4", Username: "billing", Password: os.Getenv("BILLING_PASSWORD"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A worker pool that ends with an interrupt, after its handlers.
func ExampleClient_Work() {
	c, err := client.New(client.DefaultServer, client.Options{Name: "billing/1.4"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = c.Work(ctx, "orders", client.WorkOptions{
		Workers: 16,
		Report:  func(err error) { log.Print(err) },
	}, func(ctx context.Context, m *client.Message) error {
		return bill(ctx, m.Key, m.Payload) // ctx ends when the lease is lost
	})
	if err != nil {
		log.Fatal(err)
	}
}

func bill(ctx context.Context, key, payload []byte) error { return ctx.Err() }

// Messages of many callers in few requests.
func ExampleBatcher() {
	c, err := client.New(client.DefaultServer, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	b := c.NewBatcher(client.BatcherOptions{Messages: 500, Linger: 2 * time.Millisecond})
	defer b.Close(context.Background())
	err = b.Produce(context.Background(), client.Outgoing{Topic: "orders", Key: []byte("customer-42"), Payload: []byte(`{"item":"coffee"}`)})
	var e *client.Error
	switch {
	case err == nil: // it is on the server's disk
	case errors.As(err, &e) && e.NotDone(): // it is not stored
	default: // it may be stored: producing it again may store it twice
	}
}

// By hand: consume, renew, settle.
func ExampleClient_Consume() {
	c, err := client.New(client.DefaultServer, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	m, err := c.Consume(ctx, "orders", client.ConsumeOptions{Wait: 10 * time.Second})
	if errors.Is(err, client.ErrEmpty) {
		return // nothing came within the wait
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Extend(ctx, m.Topic, m.Handle); errors.Is(err, client.ErrLeaseLost) {
		return // somebody else has it
	}
	fmt.Printf("%s\n", m.Payload)
	if err := c.Ack(ctx, m.Topic, m.Handle); err != nil && !errors.Is(err, client.ErrLeaseLost) {
		log.Fatal(err)
	}
}

// Reading a partition again, from its oldest record to its newest.
func ExampleClient_Replay() {
	c, err := client.New(client.DefaultServer, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	t, err := c.Topic(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	p := t.PartitionStats[0]
	for offset := p.Oldest; offset < p.HighWatermark; offset++ {
		m, err := c.Replay(ctx, "orders", p.Index, offset)
		if errors.Is(err, client.ErrOffsetGone) {
			continue // it is not kept any more
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", m.Offset, m.Payload)
	}
}
