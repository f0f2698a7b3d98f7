// Package floor is the smallest server that keeps the promise of a produce: it appends the body of each request to one file
// that was written with zeros before, by group commit, and answers 202 when the sync that covers it has returned. It uses the
// same HTTP library as Narad's server and does nothing else: no topics, no partitions, nobody can read what it stores. Narad's
// produce is measured against it.
package floor

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
)

// MaxBody bounds a request's body, in bytes.
const MaxBody = 1 << 20

// Log is the file and its group commit. Append may be called by any number of goroutines.
type Log struct {
	file *os.File
	size int64
	at   int64

	mu      sync.Mutex // guards the fields below
	staged  []byte
	waiting chan struct{} // closed when what is staged now is on the disk
	failed  error
	wake    chan struct{}
	done    chan struct{}
}

// Open makes a file of size bytes of zeros, which are on the disk when it returns. At its end the log starts over.
func Open(path string, size int64) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err = errors.Join(err, f.Sync()); err != nil {
		f.Close()
		return nil, err
	}
	l := &Log{file: f, size: size, waiting: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// Append returns when data is on the disk.
func (l *Log) Append(data []byte) error {
	l.mu.Lock()
	l.staged = append(l.staged, data...)
	waiting := l.waiting
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-waiting
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// run writes and syncs what was staged meanwhile, again and again. After a failure every append fails.
func (l *Log) run() {
	defer close(l.done)
	var batch []byte
	for range l.wake {
		l.mu.Lock()
		batch, l.staged = l.staged, batch[:0]
		waiting := l.waiting
		l.waiting = make(chan struct{})
		err := l.failed
		l.mu.Unlock()
		if err == nil && len(batch) > 0 {
			err = l.write(batch)
		}
		l.mu.Lock()
		l.failed = err
		l.mu.Unlock()
		close(waiting)
	}
}

func (l *Log) write(batch []byte) error {
	if l.at+int64(len(batch)) > l.size {
		l.at = 0
	}
	if _, err := l.file.WriteAt(batch, l.at); err != nil {
		return err
	}
	l.at += int64(len(batch))
	return fdatasync(l.file)
}

// Close ends the log; no append may be under way.
func (l *Log) Close() error {
	close(l.wake)
	<-l.done
	return l.file.Close()
}

// ServeHTTP implements http.Handler: every POST is a produce.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ContentLength < 1 || r.ContentLength > MaxBody {
		http.Error(w, "want a POST with a body of a length", http.StatusBadRequest)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, "no body", http.StatusBadRequest)
		return
	}
	if err := l.Append(body); err != nil {
		http.Error(w, "not stored", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
}
