package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"narad/metastore"
)

// A replicated metastore may lose its leader in the middle of a change, which is then made or not: the topic is in doubt. The
// engine goes on as before the change, and asks, before it changes any topic again and in the background, what has become of it. Then
// it follows. Until then the directory that the change would need is left alone.

// doubt is a change of which it is not known whether it was made.
type doubt struct {
	id   string // of the incarnation that there is, or would be
	made string // directory in topics/ for the incarnation that there would be; empty for none
}

// failed says what the error of a change of a topic means to a caller. A topic may be in doubt then, or a directory that was made for
// the change is of no use. It needs e.changing.
func (e *Engine) failed(doing, name string, d doubt, err error) error {
	switch {
	case errors.Is(err, metastore.ErrUncertain):
		e.doubts[name] = d
		e.janitor.resolveLater()
	case errors.Is(err, metastore.ErrFailed): // the next start knows more
		if e.failure == nil {
			e.failure = metaError(doing, name, err)
		}
	case errors.Is(err, metastore.ErrClosed):
	default:
		e.abandon(name, d.made)
	}
	return metaError(doing, name, err)
}

// abandon sets a directory aside that was made for an incarnation of a topic which did not come to be. When that fails the next
// start does it.
func (e *Engine) abandon(name, made string) {
	if made == "" {
		return
	}
	id, err := e.incarnationAt(made)
	if errors.Is(err, fs.ErrNotExist) {
		return // it was moved to its place
	}
	if t, terr := e.topic(name); terr == nil && t.info.ID == id {
		return
	}
	if err == nil {
		err = e.setAside(made, e.newIncarnation())
	}
	if err != nil {
		e.emit(TidyFailed{made, err})
	}
}

// resolve asks what has become of the topics in doubt. With an error some still are. It needs e.changing.
//
// A metastore that has failed takes no change until the next start, which may show the one that it failed at: until then the
// directory that was made for it must keep its place.
func (e *Engine) resolve() error {
	if e.failure != nil {
		return e.failure
	}
	for _, name := range slices.Sorted(maps.Keys(e.doubts)) {
		d := e.doubts[name]
		// Whatever the leader answers, it has passed what was proposed before, and this replica shows it.
		_, err := e.meta.Update(name, d.id, func(*Topic) error { return nil })
		if err != nil && !errors.Is(err, metastore.ErrNotFound) {
			return metaError("look for", name, err)
		}
		if err := e.follow(name); err != nil {
			return err
		}
		e.abandon(name, d.made)
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
