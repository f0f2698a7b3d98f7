package engine

import (
	"errors"
	"fmt"

	"narad/internal/cleanmark"
	"narad/metastore"
)

// Metastore returns the metastore of the engine: schemas and users are read and changed there. Topics must be changed through the
// engine. It may be used until the engine is closed, and longer if it was handed in.
func (e *Engine) Metastore() metastore.Store { return e.meta }

// openMetastore takes the metastore that was handed in, or opens the engine's own, and takes its topics into service.
func (e *Engine) openMetastore(mark *cleanmark.Mark) error {
	fresh := false
	if e.meta = e.opts.Metastore; e.meta == nil {
		var err error
		if e.metaDir, err = e.root.OpenDir(metastoreDir); err != nil {
			return err
		}
		if e.meta, err = metastore.OpenLocal(e.env, e.metaDir); err != nil {
			return err
		}
		l, local := e.meta.(*metastore.Local)
		fresh = local && l.Recovery().Created
	}
	if err := e.knowsTopics(mark); err != nil {
		return err
	}
	if err := e.syncTopics(); err != nil { // a process that died may have seen names that are not durable
		return err
	}
	for _, t := range e.meta.List("", 0) {
		if err := e.adoptTopic(t); err != nil {
			return err
		}
	}
	return e.clearTopics(fresh)
}

// closeMetastore closes the engine's own metastore, if it was opened, and the directory of it.
func (e *Engine) closeMetastore() (err error) {
	if e.opts.Metastore != nil {
		return nil
	}
	if e.meta != nil {
		err = e.meta.Close()
	}
	if e.metaDir != nil {
		err = errors.Join(err, e.metaDir.Close())
	}
	return err
}

// metaError says what an error of the metastore means to a caller of the engine. Errors about the leader are passed on.
func metaError(doing, topic string, err error) error {
	var clash *metastore.CaseClashError
	switch {
	case errors.Is(err, metastore.ErrExists), errors.As(err, &clash):
		return fmt.Errorf("%w: %w", ErrTopicExists, err)
	case errors.Is(err, metastore.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrTopicNotFound, err)
	case errors.Is(err, metastore.ErrInvalid):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return fmt.Errorf("engine: %s topic %s: %w", doing, topic, err)
}

// view returns the topic as clients see it. The owner may change without the engine: with the deletion of a user.
func (t *topic) view() Topic {
	info := *t.settings.Load()
	if now, found := t.engine.meta.Get(info.Name); found && now.ID == info.ID {
		info.Owner = now.Owner
	}
	return info
}
