package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"narad/engine"
	"narad/inflight"
	"narad/sim/model"
)

// Messages knows every message that the clients of a world tried to produce.
type Messages struct {
	list []message
	// Now tells the true time; nil: always 0.
	Now  func() int64
	gone map[topicOf]int64 // true time when the newest incarnation that was deleted was gone
}

// topicOf names a topic of a node.
type topicOf struct{ node, topic string }

func (m *Messages) now() int64 {
	if m.Now == nil {
		return 0
	}
	return m.Now()
}

// topicGone notes that the incarnation which a topic's name had is gone with what it held.
func (m *Messages) topicGone(node, topic string, at int64) {
	if m.gone == nil {
		m.gone = map[topicOf]int64{}
	}
	m.gone[topicOf{node, topic}] = at
}

// answeredBy returns when the last attempt to produce a message was answered, and false when one may still be under way.
func (m *Messages) answeredBy(id int) (int64, bool) {
	e := &m.list[id]
	return e.answered, e.open == 0
}

type message struct {
	topic    string
	node     string
	payload  []byte
	address  Address
	attempts int
	open     int   // attempts without an answer that says what came of them
	first    int64 // true time of the first attempt
	answered int64 // true time of the newest such answer
	accepted bool
	// deliveries counts what clients received; copies are the offsets it was seen at.
	deliveries int
	acked      bool // a client's ack was answered ok
	expired    bool // retention removed all its copies
	corrupt    bool // a stored copy was skipped because the disk had rotted there
	ackUnknown bool // or not answered
	copies     map[location]bool
}

// New makes a message of at least size bytes, and its identity.
func (m *Messages) New(node, topic string, size int) (id int, payload []byte) {
	id = len(m.list)
	payload = fmt.Appendf(make([]byte, 0, max(size, 11)+8), "m%09d ", id)
	for x := uint64(id); len(payload) < size; {
		x = x*6364136223846793005 + 1442695040888963407
		payload = binary.LittleEndian.AppendUint64(payload, x)
	}
	m.list = append(m.list, message{topic: topic, node: node, payload: payload})
	return id, payload
}

// Address is what a producer says about where its message goes (WAL-24).
type Address struct {
	Key       []byte
	Partition int32 // the chosen one, or [engine.AnyPartition]
	// Fewest and Most bound the number of partitions that the topic had when the message was accepted; Most 0: not known.
	Fewest, Most int
}

// Addressed notes where a message of [Messages.New] is sent to.
func (m *Messages) Addressed(id int, a Address) { m.list[id].address = a }

// leadsTo reports whether a message with this address may be in a partition.
func (a Address) leadsTo(partition int32) bool {
	switch {
	case a.Most == 0:
		return true
	case a.Partition != engine.AnyPartition:
		return partition == a.Partition
	case len(a.Key) == 0:
		return int(partition) < a.Most
	}
	h := fnv.New32a()
	h.Write(a.Key)
	for n := a.Fewest; n <= a.Most; n++ {
		if int32(h.Sum32()%uint32(n)) == partition {
			return true
		}
	}
	return false
}

// MessageID reads the identity of a message from its payload.
func MessageID(payload []byte) (id int, err error) {
	if len(payload) < 11 || payload[0] != 'm' || payload[10] != ' ' {
		return 0, fmt.Errorf("check: a payload without an identity: %q", payload[:min(len(payload), 40)])
	}
	for _, c := range payload[1:10] {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("check: a payload without an identity: %q", payload[:11])
		}
		id = 10*id + int(c-'0')
	}
	return id, nil
}

// Attempted notes a produce; its outcome is not known yet.
func (m *Messages) Attempted(id int) {
	e := &m.list[id]
	if e.attempts == 0 {
		e.first = m.now()
	}
	e.attempts++
	e.open++
}

// Unsent takes an attempt back: the request never left the client, or was refused for good.
func (m *Messages) Unsent(id int) {
	m.list[id].attempts--
	m.list[id].open--
}

// Accepted notes that a produce was answered 202.
func (m *Messages) Accepted(id int) {
	e := &m.list[id]
	e.accepted, e.answered = true, m.now()
	e.open--
}

// Counts returns how many messages were tried, accepted and acked, and how often any was delivered.
func (m *Messages) Counts() (tried, accepted, acked, delivered int) {
	for i := range m.list {
		e := &m.list[i]
		tried++
		delivered += e.deliveries
		if e.accepted {
			accepted++
		}
		if e.acked {
			acked++
		}
	}
	return tried, accepted, acked, delivered
}

// Delivered checks what a client received (INV-01, DEL-17) and returns the message's identity.
func (m *Messages) Delivered(node string, d *engine.Delivery) (int, error) {
	id, err := m.provenance(node, d)
	if err != nil {
		return 0, err
	}
	m.list[id].deliveries++
	return id, nil
}

// Replayed checks what a client read without a lease, and returns the message's identity.
func (m *Messages) Replayed(node string, d *engine.Delivery) (int, error) {
	id, err := m.provenance(node, d)
	if err == nil && d.Handle != (inflight.Handle{}) {
		err = model.Violate("INV-18", "a replay answered handle %v, there is no lease behind it", d.Handle)
	}
	return id, err
}

func (m *Messages) provenance(node string, d *engine.Delivery) (int, error) {
	id, err := MessageID(d.Payload)
	if err != nil || id >= len(m.list) {
		return 0, model.Violate("INV-01", "a message was delivered that nobody produced: %q", d.Payload[:min(len(d.Payload), 40)])
	}
	e := &m.list[id]
	switch {
	case e.attempts == 0:
		return 0, model.Violate("INV-01", "message %d was delivered before it was produced", id)
	case e.topic != d.Topic || e.node != node:
		return 0, model.Violate("INV-01", "message %d of %s on %s was delivered from %s on %s", id, e.topic, e.node, d.Topic, node)
	case !bytes.Equal(e.payload, d.Payload):
		return 0, model.Violate("INV-01", "message %d was delivered with other bytes than it was produced with", id)
	case !bytes.Equal(e.address.Key, d.Key):
		return 0, model.Violate("INV-01", "message %d was produced with the key %q and delivered with %q", id, e.address.Key, d.Key)
	case !e.address.leadsTo(d.Partition):
		return 0, model.Violate("INV-01", "message %d, key %q, was sent to partition %d and delivered from %d, the topic has %d to %d (WAL-24)",
			id, e.address.Key, e.address.Partition, d.Partition, e.address.Fewest, e.address.Most)
	}
	return id, nil
}

// Batch checks the bounds of a batch that a client received (INV-28): asked is how many messages it wanted, fits, if not
// 0, how many its answer had room for.
func Batch(answers []*engine.Delivery, asked, fits int) error {
	bytes, last := 0, map[int32]int64{}
	for i, d := range answers {
		if _, seen := last[d.Partition]; seen && i > 1 && answers[i-1].Partition != d.Partition && answers[0].Partition != d.Partition { // CON-28
			return model.Violate("INV-28", "a batch comes back to partition %d after partition %d", d.Partition, answers[i-1].Partition)
		}
		if before, seen := last[d.Partition]; seen && d.Offset <= before {
			return model.Violate("INV-28", "a batch has offset %d of partition %d after offset %d", d.Offset, d.Partition, before)
		}
		last[d.Partition] = d.Offset
		if bytes >= engine.MaxConsumeBytes {
			return model.Violate("INV-28", "a batch goes on after %d bytes with message %d", bytes, i)
		}
		bytes += d.Size()
	}
	switch n := len(answers); {
	case n == 0:
		return model.Violate("INV-28", "a batch was answered without a message and without an error")
	case n > min(asked, engine.MaxConsumeBatch), fits > 0 && n > fits:
		return model.Violate("INV-28", "a batch of %d was answered, %d were asked for, %d fit", n, asked, fits)
	}
	return nil
}

// Acked notes the answer to an ack: ok, or none.
func (m *Messages) Acked(id int, known bool) {
	if known {
		m.list[id].acked = true
	} else {
		m.list[id].ackUnknown = true
	}
}

// Lost returns an error for the first accepted message that no client acked (INV-02). One of a deleted topic is excused
// if it may have been accepted before the deletion; that the ingress log drops nothing else is checked by its events. What was not
// answered may be lost (DEL-19); what was is not, whatever failed or died meanwhile (DEL-16, FAIL-35).
func (m *Messages) Lost() error {
	for id := range m.list {
		e := &m.list[id]
		if e.expired || e.corrupt {
			continue
		}
		if at, deleted := m.gone[topicOf{e.node, e.topic}]; deleted && at >= e.first {
			continue
		}
		if e.accepted && !e.acked && !e.ackUnknown {
			return model.Violate("INV-02", "message %d of %s, first sent at %v, got a 202 at %v and was never acked; it was delivered %d times, stored at %v",
				id, e.topic, time.Duration(e.first), time.Duration(e.answered), e.deliveries, e.where())
		}
	}
	return nil
}

func (e *message) where() (places []string) {
	for c := range e.copies { // order-free: at most a few, sorted
		places = append(places, fmt.Sprintf("%s/%d %d", c.p.key.Topic, c.p.key.Partition, c.offset))
	}
	slices.Sort(places)
	return places
}
