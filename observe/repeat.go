package observe

import (
	"fmt"
	"log/slog"
	"time"
)

// What repeats writes of one text in a window: so many lines about one partition, so many in all.
const (
	repeatWindow = time.Minute
	repeatEach   = 3
	repeatAll    = 100
)

// line is a log line to be.
type line struct {
	level slog.Level
	text  string
	attrs []any
}

// subject is what a line is about: its text, and the values of its first two attributes when they are topic and partition.
type subject struct{ text, about string }

// repeats keeps a disk that fails for hours from filling the next one with lines. Lines beyond the limits are counted; at the
// end of the window one line says how many there were. It is used by one goroutine.
type repeats struct {
	told map[subject]*repeated
	left func(lines int64)
}

// repeated is how often something was said in its window.
type repeated struct {
	since      time.Time
	said, left int
	last       line // of those left out
}

func newRepeats(left func(lines int64)) repeats {
	if left == nil {
		left = func(int64) {}
	}
	return repeats{told: map[subject]*repeated{}, left: left}
}

// write writes a line, or counts it.
func (r *repeats) write(now time.Time, x line, out func(line)) {
	all := r.at(now, subject{x.text, ""}, out)
	one := all
	if about := aboutOf(x.attrs); about != "" && len(r.told) < eventQueue {
		one = r.at(now, subject{x.text, about}, out)
	}
	if one.said >= repeatEach || all.said >= repeatAll {
		one.left++
		one.last = x
		r.left(1)
		return
	}
	if one != all {
		all.said++
	}
	one.said++
	out(x)
}

// at returns the count of a subject, begun anew when its window is over.
func (r *repeats) at(now time.Time, s subject, out func(line)) *repeated {
	c := r.told[s]
	if c != nil && now.Sub(c.since) < repeatWindow {
		return c
	}
	if c != nil {
		c.sum(out)
	}
	c = &repeated{since: now}
	r.told[s] = c
	return c
}

// sum says how often something was left out.
func (c *repeated) sum(out func(line)) {
	if c.left > 0 {
		out(line{c.last.level, c.last.text, append(c.last.attrs[:len(c.last.attrs):len(c.last.attrs)], "repeated", c.left)})
	}
}

// sweep ends the windows that are over.
func (r *repeats) sweep(now time.Time, out func(line)) {
	for s, c := range r.told {
		if now.Sub(c.since) >= repeatWindow {
			c.sum(out)
			delete(r.told, s)
		}
	}
}

// flush ends all windows.
func (r *repeats) flush(out func(line)) {
	for _, c := range r.told {
		c.sum(out)
	}
	clear(r.told)
}

func aboutOf(attrs []any) string {
	if len(attrs) < 4 || attrs[0] != "topic" || attrs[2] != "partition" {
		return ""
	}
	return fmt.Sprint(attrs[1], "/", attrs[3])
}
