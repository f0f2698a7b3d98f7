package auth

import (
	"container/list"
	"context"
	"sync"
)

// slots bound how many run at once. Who is first in line goes first, and all who are preferred go before all others.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting [2]*list.List // of chan struct{}: the preferred, the others
}

func newSlots(n int) *slots {
	return &slots{free: n, waiting: [2]*list.List{list.New(), list.New()}}
}

// take waits for a slot, or until ctx ends.
func (s *slots) take(ctx context.Context, preferred bool) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	line := s.waiting[1]
	if preferred {
		line = s.waiting[0]
	}
	mine := make(chan struct{})
	place := line.PushBack(mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-mine: // it came at the same time, and is for the next
		s.giveLocked()
	default:
		line.Remove(place)
	}
	return ctx.Err()
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked()
}

func (s *slots) giveLocked() {
	for _, line := range s.waiting {
		if first := line.Front(); first != nil {
			close(line.Remove(first).(chan struct{}))
			return
		}
	}
	s.free++
}

func (s *slots) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[0].Len() + s.waiting[1].Len()
}
