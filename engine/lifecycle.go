package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"narad/metastore"
	"narad/record"
	"narad/segment"
)

// ErrNotPlaced reports a topic whose directory could not be moved to its place after a purge; that is tried again. Nothing was changed.
var ErrNotPlaced = errors.New("engine: the topic's directory is not in place yet")

// CreateTopic creates a topic; it exists durably when CreateTopic returns. After an error that is not
// ErrInvalid or ErrTopicExists the topic may or may not exist.
//
// Crash safety: the directories are made and synced first, the metastore's record is the commit point. A
// crash before it leaves a directory of an incarnation that nobody knows; the next start sets it aside.
func (e *Engine) CreateTopic(spec TopicSpec) (Topic, error) {
	if !e.gate.enter() {
		return Topic{}, ErrClosed
	}
	defer e.gate.leave()
	spec = spec.withDefaults()
	if err := metastore.ValidateName(spec.Name); err != nil {
		return Topic{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := spec.validate(); err != nil {
		return Topic{}, err
	}
	info := Topic{
		Name: spec.Name, ID: e.newIncarnation(), Partitions: int32(spec.Partitions), RetentionMs: spec.RetentionMs,
		VisibilityMs: spec.Visibility.Milliseconds(), MaxInFlight: int32(spec.MaxInFlight),
		MaxAckedAhead: int32(spec.MaxAckedAhead), CreatedAt: e.env.Wall().UnixMilli() / 1000, Owner: spec.Owner,
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.resolve(); err != nil {
		return Topic{}, err
	}
	if err := e.nameIsFree(spec.Name); err != nil {
		return Topic{}, err
	}
	err := e.setAside(info.Name, e.newIncarnation()) // what a creation that failed, or a deletion, left
	if err == nil {
		err = e.makeTree(info.Name, info)
	}
	if err != nil {
		return Topic{}, metaError("create", info.Name, err)
	}
	if err := e.meta.CreateWithSchema(info, spec.Schema); err != nil {
		return Topic{}, e.failed("create", info.Name, doubt{info.ID, info.Name}, err)
	}
	e.emit(TopicCreated{info})
	e.swapTopic(nil, newTopic(e, info, true))
	return info, nil
}

// nameIsFree refuses a name that is taken, also by one that differs only in case: on some file systems the
// two would share a directory.
func (e *Engine) nameIsFree(name string) error {
	for _, t := range e.allTopics() {
		if strings.EqualFold(t.info.Name, name) {
			return fmt.Errorf("%w: %s", ErrTopicExists, t.info.Name)
		}
	}
	return nil
}

func (e *Engine) newIncarnation() string {
	seed := e.env.Seed("incarnation")
	return hex.EncodeToString(seed[:8])
}

// DeleteTopic deletes a topic with all its messages. When it returns nil the topic is gone durably: no message of it is
// delivered to a consume that begins afterwards, accepted messages that were not dispatched are discarded, handles
// answer ErrTopicNotFound, or ErrLeaseGone once the name has a new topic. Consumers that wait are answered
// ErrTopicNotFound; a new topic of the name, if it is there by then, has them instead. After an error other than
// ErrTopicNotFound and ErrClosed the topic may be gone after the next start.
//
// Crash safety: the metastore's record is the commit point. What follows only frees what the topic held: its directory is
// set aside under a name that nothing is served from, before anything in memory is dropped and before the name can have a new
// directory, and removed in the background. A crash in between leaves a directory that no topic has, which the next
// start deals with.
func (e *Engine) DeleteTopic(name string) error {
	if !e.gate.enter() {
		return ErrClosed
	}
	defer e.gate.leave()
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.resolve(); err != nil {
		return err
	}
	t, err := e.topic(name)
	if err != nil {
		return err
	}
	if err := e.meta.Delete(name, t.info.ID); err != nil {
		return e.failed("delete", name, doubt{id: t.info.ID}, err)
	}
	e.emit(TopicDeleted{name, t.info.ID})
	if err := e.retire(t, nil); err != nil { // the topic is gone all the same
		e.emit(RetireFailed{name, t.info.ID, err})
	}
	return nil
}

// PurgeTopic deletes all messages of a topic, in all its partitions, whatever state they are in: stored, leased, or accepted
// and not yet dispatched. The topic goes on with the same settings as a new incarnation, whose id is in the answer;
// offsets begin at 0 again, and handles given out before answer ErrLeaseGone. Consumers that wait go on waiting. It is
// atomic: after a crash, and after an error other than ErrTopicNotFound and ErrClosed, either all are gone or none.
//
// Crash safety: the new incarnation's directory is made and synced beside the old one; the metastore's record, which gives
// the name to the new id, is the commit point. Before it, a crash leaves a directory that the next start removes. After
// it, the directories change places, and the next start completes that if a crash came in between.
func (e *Engine) PurgeTopic(name string) (Topic, error) {
	if !e.gate.enter() {
		return Topic{}, ErrClosed
	}
	defer e.gate.leave()
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.resolve(); err != nil {
		return Topic{}, err
	}
	t, err := e.topic(name)
	if err != nil {
		return Topic{}, err
	}
	if !t.placed.Load() {
		return Topic{}, ErrNotPlaced
	}
	next := t.view()
	next.ID = e.newIncarnation()
	if err := e.makeTree(nextName(next), next); err != nil {
		return Topic{}, metaError("purge", name, err)
	}
	if err := e.meta.Replace(t.info.ID, next); err != nil {
		return Topic{}, e.failed("purge", name, doubt{t.info.ID, nextName(next)}, err)
	}
	e.emit(TopicPurged{t.info.ID, next})
	if err := e.retire(t, newTopic(e, next, false)); err != nil { // the messages are gone all the same
		e.emit(RetireFailed{name, t.info.ID, err})
	}
	return next, nil
}

// retire ends an incarnation that the metastore does not know any more, and puts its successor, if there is one, in its
// place. The order matters:
//
//  1. The fences are taken: no shard is being made, and none will be until the end (COM-50, COM-51).
//  2. The name leads to the successor, or nowhere. What the ingress log has for the old incarnation is discarded.
//  3. The old partitions open nothing any more, their logs close, those who wait look again.
//  4. The directory is set aside.
//  5. The consumer state in memory is dropped, and the committer has forgotten it (COM-38): after the rename, so that nothing
//     is primed from the old directory again, and before a new directory has the name.
//  6. The successor's directory gets the name.
func (e *Engine) retire(t, successor *topic) error {
	parts := t.partitions()
	for _, p := range parts {
		p.fence.Lock()
		defer p.fence.Unlock()
	}
	e.swapTopic(t, successor)
	e.dispatcher.retire(t)
	var err error
	for _, p := range parts {
		if cerr := p.shut(errRetired); cerr != nil && !errors.Is(cerr, segment.ErrClosed) {
			err = cerr
		}
	}
	t.waiting.retire()
	e.env.Point("engine: topic retired, directory in place")
	aside := e.setAside(t.info.Name, t.info.ID)
	e.env.Point("engine: directory set aside, consumer state not dropped")
	for _, p := range parts {
		p.drop()
		e.seats.leave(p)
	}
	if successor == nil {
		return errors.Join(err, aside)
	}
	placed := aside
	if placed == nil {
		placed = e.place(*successor.settings.Load())
	}
	if placed != nil {
		e.janitor.placeLater(successor)
		return errors.Join(err, placed)
	}
	successor.placed.Store(true)
	return err
}

// TopicPatch says what to change of a topic. Nil leaves a setting as it is.
type TopicPatch struct {
	RetentionMs   *int64 // 0 means for ever
	MaxInFlight   *int   // 0 means the default
	MaxAckedAhead *int   // 0 means the default
	Partitions    *int   // only more than there are
}

// AlterTopic changes the settings of a topic, all of the patch or nothing, and returns them. It is durable when it returns;
// after an error that is neither ErrInvalid nor ErrTopicNotFound it may turn out to have been made, after the next start.
// Consumers that wait look again: a higher cap, or a new partition, may have something for them.
//
// Crash safety: directories of new partitions are made and synced before the metastore's record, the commit point. A crash
// before it leaves empty directories, which the next alteration takes.
func (e *Engine) AlterTopic(name string, patch TopicPatch) (Topic, error) {
	if !e.gate.enter() {
		return Topic{}, ErrClosed
	}
	defer e.gate.leave()
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.resolve(); err != nil {
		return Topic{}, err
	}
	t, err := e.topic(name)
	if err != nil {
		return Topic{}, err
	}
	before := t.view()
	after, err := patch.apply(before)
	if err != nil || after == before {
		return before, err
	}
	if err := e.makeGrown(t, after); err != nil {
		return Topic{}, fmt.Errorf("engine: alter topic %s: %w", name, err)
	}
	// The patch is applied to what the metastore has by then, so what it leaves out is not written back.
	after, err = e.meta.Update(name, t.info.ID, func(now *Topic) error {
		patched, err := patch.apply(*now)
		*now = patched
		return err
	})
	if err != nil {
		return Topic{}, e.failed("alter", name, doubt{id: t.info.ID}, err)
	}
	e.alter(t, after)
	return after, nil
}

// makeGrown makes the directories of the partitions that a topic is about to get.
func (e *Engine) makeGrown(t *topic, after Topic) error {
	from := t.settings.Load().Partitions
	if after.Partitions == from {
		return nil
	}
	if !t.placed.Load() {
		return ErrNotPlaced
	}
	dir, err := e.root.OpenDir(topicPath(after.Name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return makePartitions(dir, from, after.Partitions)
}

// applyLimits tells the live lease tables of new caps, and those who wait for one that was full. A table that is being
// made sees them by itself.
func (t *topic) applyLimits() {
	limits := t.leases()
	for _, p := range t.partitions() {
		p.mu.Lock()
		if p.shard != nil && p.holder == p {
			p.shard.SetLimits(limits)
			t.engine.emit(LimitsSet{p.key, limits.MaxInFlight, limits.MaxAckedAhead})
		}
		p.mu.Unlock()
	}
}

// apply returns the settings after the patch, or an error that wraps ErrInvalid.
func (patch TopicPatch) apply(t Topic) (Topic, error) {
	if patch == (TopicPatch{}) {
		return t, fmt.Errorf("%w: the patch is empty", ErrInvalid)
	}
	spec := TopicSpec{Partitions: int(t.Partitions), RetentionMs: t.RetentionMs, MaxInFlight: int(t.MaxInFlight), MaxAckedAhead: int(t.MaxAckedAhead)}
	if patch.RetentionMs != nil {
		spec.RetentionMs = *patch.RetentionMs
	}
	if patch.MaxInFlight != nil {
		spec.MaxInFlight = *patch.MaxInFlight
	}
	if patch.MaxAckedAhead != nil {
		spec.MaxAckedAhead = *patch.MaxAckedAhead
	}
	if patch.Partitions != nil {
		if spec.Partitions = *patch.Partitions; spec.Partitions < int(t.Partitions) {
			return t, fmt.Errorf("%w: %d partitions, the topic has %d and cannot shrink", ErrInvalid, spec.Partitions, t.Partitions)
		}
	}
	spec = spec.withDefaults()
	if err := spec.validate(); err != nil {
		return t, err
	}
	t.RetentionMs, t.Partitions = spec.RetentionMs, int32(spec.Partitions)
	t.MaxInFlight, t.MaxAckedAhead = int32(spec.MaxInFlight), int32(spec.MaxAckedAhead)
	return t, nil
}

// isDeleted reports whether the incarnation that a record of the ingress log was accepted for is gone for good. What the
// metastore shows is durable, and a topic exists durably before anything is accepted for it, so an incarnation that it does
// not have was deleted, and that cannot come undone. A record without an id, as old releases wrote, goes by the name.
func (e *Engine) isDeleted(r record.Produce) bool {
	now, found := e.meta.Get(r.Topic)
	return !found || r.Incarnation != "" && now.ID != r.Incarnation
}
