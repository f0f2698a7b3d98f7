package torture

import (
	"cmp"
	"time"
)

// Config says how hard it is. The zero value of a field means its default, which is the form of the acceptance run.
type Config struct {
	Binary string // the narad command
	Dir    string // of the server; its data is below
	Seed   uint64 // of the clients and the killer; processes, networks and disks do as they like

	Kills      int           // default 200
	Topics     int           // default 3
	Partitions int           // of a topic; default 6
	Producers  int           // default 64
	Consumers  int           // default 64
	Visibility time.Duration // default 1.5 s
	Rate       int           // messages a second that producers try to send; default 800
	Backlog    int           // messages accepted and not acked, above which producers pause; default 2000
	Pauses     bool          // stop the process for a while now and then (SIGSTOP)

	// Window is how old an ack may be at the kill that undoes it: a tick of 100 ms, and 2 s for a machine that is busy. How long
	// the process stood still comes on top.
	Window time.Duration

	// Progress is told after each kill, and of each phase. Nil: nobody is.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Phase                     string
	Kills, Of                 int
	Accepted, Acked, Starting int // Starting: kills before the server served
	Took                      time.Duration
}

func (c Config) withDefaults() Config {
	c.Kills, c.Topics, c.Partitions = cmp.Or(c.Kills, 200), cmp.Or(c.Topics, 3), cmp.Or(c.Partitions, 6)
	c.Producers, c.Consumers, c.Visibility = cmp.Or(c.Producers, 64), cmp.Or(c.Consumers, 64), cmp.Or(c.Visibility, 1500*time.Millisecond)
	c.Rate, c.Backlog, c.Window = cmp.Or(c.Rate, 800), cmp.Or(c.Backlog, 2000), cmp.Or(c.Window, 2100*time.Millisecond)
	return c
}
