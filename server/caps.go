package server

import (
	"net/http"
	"sync"
)

var (
	errTooManyConsumes = &Error{Status: http.StatusTooManyRequests, RetryAfter: 1, Text: "too many consumes in flight for one client"}
	errTooManyProduces = &Error{Status: http.StatusTooManyRequests, RetryAfter: 1, Text: "too many produces in flight for one client"}
)

// caps bounds how much of one kind is in flight per identity.
type caps struct {
	most int // per identity; 0 and less: no bound

	mu   sync.Mutex
	used map[string]int
}

func newCaps(most int) *caps { return &caps{most: most, used: map[string]int{}} }

// permit is a share of a cap. Without a bound it is empty.
type permit struct {
	caps *caps
	id   string
	n    int
}

// noPermit is that of everybody where there is no bound.
var noPermit = &permit{}

// enter takes n, or as many as there may be at all, for the identity of the exchange. It returns nil when they
// are not free.
func (c *caps) enter(x *exchange, n int) *permit {
	if c.most <= 0 {
		return noPermit
	}
	p := &x.permit
	*p = permit{caps: c, id: x.identity()}
	if !p.grow(n) {
		return nil
	}
	return p
}

// grow makes the permit one for n, or as many as there may be at all.
func (p *permit) grow(n int) bool {
	c := p.caps
	if c == nil {
		return true
	}
	n = min(n, c.most)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used[p.id]+n-p.n > c.most {
		return false
	}
	c.used[p.id] += n - p.n
	p.n = n
	return true
}

// leave gives the permit back.
func (p *permit) leave() {
	c := p.caps
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used[p.id] -= p.n; c.used[p.id] <= 0 {
		delete(c.used, p.id)
	}
	p.n = 0
}
