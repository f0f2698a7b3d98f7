package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"narad/sim/workload"
)

// progress shows how far a campaign is: a line that is written over on a terminal, a line now and then elsewhere.
type progress struct {
	total, count, failed int
	start, last          time.Time
	simulated            time.Duration
	terminal, enabled    bool
}

func newProgress(total int, enabled bool) *progress {
	return &progress{total: total, start: time.Now(), last: time.Now(), terminal: term.IsTerminal(int(os.Stderr.Fd())), enabled: enabled}
}

func (p *progress) done(r workload.Result) {
	p.count++
	p.simulated += r.Simulated
	if r.Err != nil {
		p.failed++
	}
	every := 10 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if now := time.Now(); p.enabled && now.Sub(p.last) >= every {
		p.last = now
		p.show()
	}
}

func (p *progress) show() {
	elapsed := time.Since(p.start)
	left := time.Duration(float64(elapsed) / float64(p.count) * float64(p.total-p.count))
	line := fmt.Sprintf("%d/%d seeds, %d failed, %v simulated, %v left", p.count, p.total, p.failed, p.simulated.Round(time.Second), left.Round(time.Second))
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(os.Stderr, line)
	}
}

// say prints something above the progress line.
func (p *progress) say(text string) {
	if p.terminal && p.enabled {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	fmt.Fprint(os.Stderr, text)
}

func (p *progress) end() {
	if p.terminal && p.enabled {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
