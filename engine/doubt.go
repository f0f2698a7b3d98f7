package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"narad/metastore"
)

// A replicated metastore may lose its leader in the middle of a change, which is then made or not: the topic is in doubt. The
// engine goes on as before the change, and asks, before it changes any topic again and in the background, what has become of it. Then
// it follows. Until then the directory that the change would need is left alone.

// failed says what the error of a change of a topic means to a caller, and notes a topic that is in doubt. The id is that of the
// incarnation that there is, or would be. It needs e.changing.
func (e *Engine) failed(doing, name, id string, err error) error {
	if errors.Is(err, metastore.ErrUncertain) {
		e.doubts[name] = id
		e.janitor.resolveLater()
	}
	return metaError(doing, name, err)
}

// resolve asks what has become of the topics in doubt. With an error some still are. It needs e.changing.
func (e *Engine) resolve() error {
	for _, name := range slices.Sorted(maps.Keys(e.doubts)) {
		// Whatever the leader answers, it has passed what was proposed before, and this replica shows it.
		_, err := e.meta.Update(name, e.doubts[name], func(*Topic) error { return nil })
		if err != nil && !errors.Is(err, metastore.ErrNotFound) {
			return metaError("look for", name, err)
		}
		if err := e.follow(name); err != nil {
			return err
		}
		delete(e.doubts, name)
	}
	return nil
}

// follow makes a topic what the metastore says that it is. It needs e.changing.
func (e *Engine) follow(name string) error {
	now, found := e.meta.Get(name)
	t, err := e.topic(name)
	switch {
	case err != nil && !found:
		return nil
	case err != nil:
		return e.followCreation(now)
	case !found:
		e.emit(TopicDeleted{name, t.info.ID})
		if err := e.retire(t, nil); err != nil {
			e.emit(RetireFailed{name, t.info.ID, err})
		}
	case now.ID != t.info.ID:
		e.emit(TopicPurged{t.info.ID, now})
		if err := e.retire(t, newTopic(e, now, false)); err != nil {
			e.emit(RetireFailed{name, t.info.ID, err})
		}
	case now != *t.settings.Load():
		return e.followAlteration(t, now)
	}
	return nil
}

func (e *Engine) followCreation(now Topic) error {
	id, err := e.incarnationAt(now.Name)
	if err == nil && id != now.ID {
		err = fmt.Errorf("the directory belongs to incarnation %.40q, the topic is incarnation %q", id, now.ID)
	}
	if err != nil {
		return damagedTopic(now, err)
	}
	e.emit(TopicCreated{now})
	e.swapTopic(nil, newTopic(e, now, true))
	return nil
}

func (e *Engine) followAlteration(t *topic, now Topic) error {
	if err := e.makeGrown(t, now); err != nil {
		return fmt.Errorf("engine: alter topic %s: %w", now.Name, err)
	}
	e.alter(t, now)
	return nil
}

// alter puts settings into effect that the metastore has.
func (e *Engine) alter(t *topic, now Topic) {
	e.emit(TopicAltered{now})
	t.become(now)
	t.applyLimits()
	t.notify()
}
