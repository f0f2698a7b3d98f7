package engine

// Ingress is what can be seen of the ingress log at one moment.
type Ingress struct {
	// Failed is why every produce fails until the engine is opened anew, nil while the log works (WAL-11).
	Failed error
	// Next is one beyond the last record that is durable, Checkpoint the lowest one that is not known to be done:
	// Next - Checkpoint records wait to be committed to their partitions, or for one that does.
	Next, Checkpoint uint64
}

// Ingress describes the ingress log. It does not block on I/O.
func (e *Engine) Ingress() Ingress {
	stored, _ := e.wal.Checkpoint() // before Next, so that the difference is not negative
	return Ingress{Failed: e.wal.Err(), Next: e.wal.Next(), Checkpoint: stored}
}
