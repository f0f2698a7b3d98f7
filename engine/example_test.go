package engine_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"narad/engine"
)

// An engine in a directory: create a topic, produce, consume, ack.
func Example() {
	dir, err := os.MkdirTemp("", "narad-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	e, err := engine.Open(dir, engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := e.CreateTopic(engine.TopicSpec{Name: "orders"}); err != nil {
		log.Fatal(err)
	}

	// When Produce returns nil, the message survives any crash.
	m := engine.Message{Topic: "orders", Partition: engine.AnyPartition, Key: []byte("customer-42"), Payload: []byte("two coffees")}
	if err := e.Produce(m); err != nil {
		log.Fatal(err)
	}

	// Consume leases the message for the topic's visibility timeout. Cancel the request from another task,
	// for example with context.AfterFunc(ctx, request.Cancel).
	request := &engine.ConsumeRequest{Topic: "orders", Partition: engine.AnyPartition, Wait: 5 * time.Second}
	d, err := e.Consume(request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", d.Key, d.Payload)

	// Ack settles it for good. Without the ack it would be delivered again after the visibility timeout.
	if err := e.Ack(d.Topic, d.Handle); err != nil {
		log.Fatal(err)
	}
	// Close makes everything exact and durable.
	if err := e.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: customer-42: two coffees
}
