package engine

import (
	"fmt"

	"narad/env"
	"narad/record"
	"narad/wal"
)

// Steps of reading.
const (
	intakeChunk = 1024 // records read before commits are started
	intakeNear  = 256  // records that are read over rather than sought past
	intakeRun   = 64   // records that are placed under one lock
)

// intake is the reading side of the dispatcher: new records, records that were passed over, records that fit nowhere.
type intake struct {
	fresh *wal.Reader
	again *wal.Reader
	pos   uint64 // the next record that again reads

	like  record.Produce // topic and incarnation of the last record
	topic *topic         // of the last record of the run that is being placed; nil: not looked up

	held      []heldRecord // ascending
	heldKeys  map[heldKey]int
	retryHeld env.Instant
}

// heldRecord is a record that fits no topic, for now.
type heldRecord struct {
	seq uint64
	key heldKey
}

// heldKey names what a held record is for. While one is held, no later one for the same may pass.
type heldKey struct {
	topic, incarnation string
	partition          int32
}

func (in *intake) open(log *wal.Log, from uint64) {
	in.fresh, in.again, in.pos = log.NewReader(from), log.NewReader(from), from
	in.heldKeys = make(map[heldKey]int)
}

func (in *intake) close() {
	in.fresh.Close()
	in.again.Close()
}

func (in *intake) heldCount() int { return len(in.held) }

// read queues durable records: first what was passed over and has room now, so that it does not get older still, then what is
// new. It reports whether there may be more to do at once.
func (d *dispatcher) read() (more bool, err error) {
	if err := d.readHeld(); err != nil {
		return false, err
	}
	skippedMore, err := d.readSkipped()
	if err != nil {
		return false, err
	}
	freshMore, err := d.readFresh()
	return skippedMore || freshMore, err
}

// readFresh reads new records until there is none, the chunk is full, or the window is.
func (d *dispatcher) readFresh() (more bool, err error) {
	d.mu.Lock()
	room := d.mayRead()
	d.mu.Unlock()
	for left := intakeChunk; left > 0; {
		if !room {
			return false, nil
		}
		seq, payload, ok, err := d.intake.fresh.Next()
		if err != nil || !ok {
			return false, err
		}
		var placed int
		placed, room = d.placeRun(seq, payload, min(left, intakeRun))
		left -= placed
	}
	return true, nil
}

// placeRun places a new record, and up to most in all of those that were read from the disk along with it, under one lock and at one
// instant. It reports how many, and whether another one may be read.
func (d *dispatcher) placeRun(seq uint64, payload []byte, most int) (placed int, room bool) {
	in := &d.intake
	d.mu.Lock()
	defer d.mu.Unlock()
	in.topic = nil // it may have been replaced since
	now := d.now()
	for ok := true; ok; seq, payload, ok = in.fresh.Buffered() {
		d.place(seq, payload, now)
		placed++
		if room = d.mayRead(); !room || placed == most {
			return placed, room
		}
	}
	return placed, room
}

// mayRead reports whether a new record may be read. It needs d.mu.
func (d *dispatcher) mayRead() bool {
	window, _ := d.limits()
	return d.hasRoom() && d.window.size() < lookAhead*window
}

// place decides where a new record goes. It needs d.mu.
func (d *dispatcher) place(seq uint64, payload []byte, now env.Instant) {
	p, dest, err := d.resolve(payload)
	d.window.add(seq)
	switch {
	case err == nil && !d.intake.holds(p):
		d.admit(dest, seq, p, now)
	case err != nil && d.discards(p):
		d.drop(seq)
	default:
		d.hold(seq, keyOf(p), err)
	}
}

func keyOf(p record.Produce) heldKey { return heldKey{p.Topic, p.Incarnation, p.Partition} }

// holds reports whether an earlier record for the same is held.
func (in *intake) holds(p record.Produce) bool {
	return len(in.heldKeys) > 0 && in.heldKeys[keyOf(p)] > 0
}

// resolve finds out what a record is for. It fits only the incarnation of the topic that it was accepted for. It needs d.mu: a topic
// that is replaced meanwhile retires after this run.
func (d *dispatcher) resolve(payload []byte) (record.Produce, *partition, error) {
	p, err := record.ParseProduceLike(payload, d.intake.like)
	if err != nil {
		return record.Produce{}, nil, err
	}
	d.intake.like.Topic, d.intake.like.Incarnation = p.Topic, p.Incarnation
	t := d.intake.topic
	if t == nil || t.info.Name != p.Topic {
		if t, err = d.engine.topic(p.Topic); err != nil {
			return p, nil, err
		}
		d.intake.topic = t
	}
	if p.Incarnation != t.info.ID || p.Partition < 0 || int(p.Partition) >= len(t.partitions()) {
		return p, nil, fmt.Errorf("it is for partition %d of incarnation %s, topic %s is incarnation %s with %d partitions",
			p.Partition, p.Incarnation, p.Topic, t.info.ID, len(t.partitions()))
	}
	return p, t.partitions()[p.Partition], nil
}

// discards reports whether a record that fits no topic is never going to. One that cannot even be read never is: it got a 202.
func (d *dispatcher) discards(p record.Produce) bool {
	return p.Topic != "" && d.discard != nil && d.discard(p)
}

// admit queues a record, or passes it over when its destination takes none now or has passed over earlier ones. It needs d.mu.
func (d *dispatcher) admit(p *partition, seq uint64, rec record.Produce, now env.Instant) {
	if p.topic.undispatched {
		d.drop(seq)
		return
	}
	l := d.laneTo(p.key, p)
	_, each := d.limits()
	d.change(l, func() {
		if len(l.skipped) == 0 && l.accepts(each) {
			l.push(pending{seq: seq, at: now, key: rec.Key, payload: rec.Payload})
		} else {
			l.skip(seq)
		}
	})
}

// readSkipped reads again, in the order of the log, what was passed over and has room now.
func (d *dispatcher) readSkipped() (more bool, err error) {
	for range intakeChunk {
		seq, ok := d.nextSkipped()
		if !ok {
			return false, nil
		}
		payload, err := d.intake.reread(seq, d.checkpoint())
		if err != nil {
			return false, err
		}
		rec, err := record.ParseProduce(payload)
		if err != nil {
			return false, fmt.Errorf("engine: ingress record %d has changed: %w", seq, err)
		}
		d.requeue(seq, rec)
	}
	return true, nil
}

// nextSkipped returns the lowest record that was passed over and whose lane has room.
func (d *dispatcher) nextSkipped() (lowest uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.behind == 0 || !d.hasRoom() {
		return 0, false
	}
	_, each := d.limits()
	for _, l := range d.all {
		if len(l.skipped) > 0 && l.accepts(each) && (!ok || l.skipped[0] < lowest) {
			lowest, ok = l.skipped[0], true
		}
	}
	return lowest, ok
}

// requeue moves a record from its lane's skipped ones to the queue.
func (d *dispatcher) requeue(seq uint64, rec record.Produce) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, each := d.limits()
	for _, l := range d.all {
		if len(l.skipped) == 0 || l.skipped[0] != seq || !l.accepts(each) {
			continue
		}
		d.change(l, func() {
			l.skipped = l.skipped[1:]
			l.push(pending{seq: seq, at: d.now(), key: rec.Key, payload: rec.Payload})
		})
		return
	}
}

// reread reads a record that was read before and is kept, as everything from the checkpoint on is. The payload is valid
// until the next call.
func (in *intake) reread(seq, checkpoint uint64) ([]byte, error) {
	if seq < in.pos || seq > in.pos+intakeNear || in.pos < checkpoint {
		in.again.Seek(seq)
		in.pos = seq
	}
	for {
		got, payload, ok, err := in.again.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("engine: ingress record %d is not there any more", seq)
		}
		in.pos = got + 1
		if got == seq {
			return payload, nil
		}
	}
}

// hold keeps a record that fits nowhere: it got a 202, so it is never dropped for that, and stops nobody but the checkpoint.
// It needs d.mu.
func (d *dispatcher) hold(seq uint64, key heldKey, err error) {
	in := &d.intake
	if len(in.held) == 0 {
		in.retryHeld = d.now().Add(walRetry)
	}
	in.held = append(in.held, heldRecord{seq, key})
	in.heldKeys[key]++
	if err != nil {
		d.engine.emit(RecordHeld{seq, err})
	}
}

// readHeld tries once a second, in order, whether held records have a place by now.
func (d *dispatcher) readHeld() error {
	in := &d.intake
	if len(in.held) == 0 || d.now() < in.retryHeld {
		return nil
	}
	in.retryHeld = d.now().Add(walRetry)
	var kept []heldRecord
	for i, h := range in.held {
		payload, err := in.reread(h.seq, d.checkpoint())
		if err != nil {
			in.held = append(kept, in.held[i:]...)
			return err
		}
		if !d.release(h, payload) {
			kept = append(kept, h)
		}
	}
	in.held = kept
	return nil
}

// release gives a held record its place, and reports false when it has none yet.
func (d *dispatcher) release(h heldRecord, payload []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.intake.topic = nil
	p, dest, err := d.resolve(payload)
	switch {
	case err == nil:
		d.admit(dest, h.seq, p, d.now())
	case d.discards(p):
		d.drop(h.seq)
	default:
		return false
	}
	if d.intake.heldKeys[h.key]--; d.intake.heldKeys[h.key] == 0 {
		delete(d.intake.heldKeys, h.key)
	}
	return true
}
