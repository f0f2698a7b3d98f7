package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"narad/engine"
)

// A batch is all or nothing when it is checked, and durable as a whole when it is answered. Consumers take batches too.
func ExampleEngine_ProduceBatch() {
	e, done := openExample(engine.Options{})
	defer done()

	orders := []engine.Message{
		{Partition: 0, Payload: []byte("two coffees")},
		{Partition: 0, Payload: []byte("one tea")},
		{Partition: 0}, // no payload: the batch is refused
	}
	var refused *engine.BatchError
	if err := e.ProduceBatch("orders", orders); errors.As(err, &refused) {
		fmt.Println("refused because of message", refused.Index)
	}
	must(e.ProduceBatch("orders", orders[:2]))

	// It answers with what is there; it does not wait for a full batch.
	for got := 0; got < 2; {
		request := &engine.ConsumeRequest{Topic: "orders", Partition: engine.AnyPartition, Wait: 5 * time.Second}
		deliveries, err := e.ConsumeBatch(request, 100)
		must(err)
		for _, d := range deliveries {
			fmt.Printf("%d: %s\n", d.Offset, d.Payload)
			must(e.Ack(d.Topic, d.Handle))
		}
		got += len(deliveries)
	}
	// Output:
	// refused because of message 2
	// 0: two coffees
	// 1: one tea
}

// A context ends a wait by Cancel. A message that is handed over at that very instant is given back.
func ExampleConsumeRequest_Cancel() {
	e, done := openExample(engine.Options{})
	defer done()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	request := &engine.ConsumeRequest{Topic: "orders", Partition: engine.AnyPartition, Wait: time.Minute}
	defer context.AfterFunc(ctx, request.Cancel)()

	_, err := e.Consume(request)
	fmt.Println(errors.Is(err, engine.ErrCancelled))
	// Output: true
}

// Long work extends its lease; work that failed gives the message to the next consumer at once.
func ExampleEngine_Nack() {
	e, done := openExample(engine.Options{})
	defer done()
	must(e.Produce(engine.Message{Topic: "orders", Partition: 1, Payload: []byte("two coffees")}))

	first := take(e)
	must(e.Extend("orders", first.Handle)) // one visibility timeout from now
	must(e.Nack("orders", first.Handle))
	fmt.Println("the handle is dead:", errors.Is(e.Ack("orders", first.Handle), engine.ErrLeaseGone))

	second := take(e)
	fmt.Println("same message:", second.Offset == first.Offset, "other lease:", second.Handle != first.Handle)
	must(e.Ack("orders", second.Handle))
	// Output:
	// the handle is dead: true
	// same message: true other lease: true
}

// Replay reads what is stored, settled or not, and changes nothing.
func ExampleEngine_Replay() {
	e, done := openExample(engine.Options{})
	defer done()
	must(e.Produce(engine.Message{Topic: "orders", Partition: 0, Payload: []byte("two coffees")}))
	must(e.Ack("orders", take(e).Handle))

	d, err := e.Replay("orders", 0, 0)
	must(err)
	fmt.Printf("%s\n", d.Payload)
	_, err = e.Replay("orders", 0, 1)
	fmt.Println(errors.Is(err, engine.ErrEmpty))
	// Output:
	// two coffees
	// true
}

// Stats tells of each partition how far consumers are behind.
func ExampleEngine_Stats() {
	e, done := openExample(engine.Options{})
	defer done()
	must(e.Produce(engine.Message{Topic: "orders", Partition: 2, Payload: []byte("two coffees")}))
	take(e)

	stats, err := e.Stats("orders")
	must(err)
	for _, s := range stats {
		fmt.Printf("partition %d: lag %d, leases %d\n", s.Partition, s.HighWatermark-1-s.Committed, s.Leases)
	}
	// Output:
	// partition 0: lag 0, leases 0
	// partition 1: lag 0, leases 0
	// partition 2: lag 1, leases 1
}

// A topic grows, is emptied, and goes.
func ExampleEngine_AlterTopic() {
	e, done := openExample(engine.Options{})
	defer done()

	partitions := 6
	t, err := e.AlterTopic("orders", engine.TopicPatch{Partitions: &partitions})
	must(err)
	fmt.Println("partitions:", t.Partitions)

	purged, err := e.PurgeTopic("orders")
	must(err)
	fmt.Println("another incarnation:", purged.ID != t.ID)

	must(e.DeleteTopic("orders"))
	_, err = e.Topic("orders")
	fmt.Println(errors.Is(err, engine.ErrTopicNotFound))
	// Output:
	// partitions: 6
	// another incarnation: true
	// true
}

// A listener sees everything that happens as typed events. It runs under locks, so it only counts here.
func ExampleOptions_listener() {
	accepted := 0
	e, done := openExample(engine.Options{Listener: func(event engine.Event) {
		if _, ok := event.(engine.Accepted); ok {
			accepted++
		}
	}})
	must(e.Produce(engine.Message{Topic: "orders", Partition: engine.AnyPartition, Payload: []byte("two coffees")}))
	done()
	fmt.Println("accepted:", accepted)
	// Output: accepted: 1
}

// openExample opens an engine in a directory of its own, with a topic in it; done closes and removes both.
func openExample(o engine.Options) (e *engine.Engine, done func()) {
	dir, err := os.MkdirTemp("", "narad-example-")
	must(err)
	e, err = engine.Open(dir, o)
	must(err)
	_, err = e.CreateTopic(engine.TopicSpec{Name: "orders"})
	must(err)
	return e, func() {
		must(e.Close())
		must(os.RemoveAll(dir))
	}
}

// take leases the next message of the topic.
func take(e *engine.Engine) *engine.Delivery {
	d, err := e.Consume(&engine.ConsumeRequest{Topic: "orders", Partition: engine.AnyPartition, Wait: 5 * time.Second})
	must(err)
	return d
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
