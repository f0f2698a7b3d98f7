package sim

import "time"

// PolicyKind says how the next task is picked among the runnable ones.
type PolicyKind uint8

const (
	Uniform  PolicyKind = iota // each with the same probability
	Priority                   // the one of the highest priority; priorities are drawn and change at drawn steps (PCT)
	FIFO                       // in turn, nothing is drawn
	Swarm                      // New draws one of Uniform and Priority, and whether tasks starve
)

// Policy is how a world schedules its tasks.
type Policy struct {
	Kind PolicyKind
	// ChangeGap is the largest number of steps between two changes of priority under Priority (default 2,000): the task picked there becomes
	// the least of all.
	ChangeGap int
	// Starve sets a task aside now and then: it does not run although it could.
	Starve bool
	// Alone lets Starve set aside the only runnable task, too: time passes between two steps of a task although nobody else has
	// anything to do. It makes short windows long.
	Alone bool
	// Linger is the name of a point at which tasks are set aside now and then, as by Starve: it makes one window long.
	Linger string
	// LingerFor bounds the length of such an episode in true time (default 8 ms).
	LingerFor time.Duration
	// StarveGap is the largest number of steps between two such episodes (default 20,000).
	StarveGap int
	// StarveFor bounds their length in true time (default 2 s).
	StarveFor time.Duration
}

// fairEvery is the number of steps after which Priority runs whoever waits longest, so that a task that
// spins until another one acts cannot spin for ever.
const fairEvery = 1024

type scheduler struct {
	Policy
	nextChange int64 // step
	nextStarve int64 // step
	lowest     int64 // priorities handed out at changes, ever lower
}

func (w *World) setPolicy(p Policy) {
	if p.Kind == Swarm {
		drawn := w.Choose(4)
		p.Kind = PolicyKind(drawn % 2)
		p.Starve = drawn >= 2
	}
	if p.ChangeGap <= 0 {
		p.ChangeGap = 2000
	}
	if p.StarveGap <= 0 {
		p.StarveGap = 20_000
	}
	if p.LingerFor <= 0 {
		p.LingerFor = 8 * time.Millisecond
	}
	if p.StarveFor <= 0 {
		p.StarveFor = 2 * time.Second
	}
	w.sched = scheduler{Policy: p}
	if p.Kind == Priority {
		w.sched.nextChange = int64(w.Choose(p.ChangeGap))
	}
	if p.Starve {
		w.sched.nextStarve = 1 + int64(w.Choose(p.StarveGap))
	}
}

// pick takes the next task to run from the runnable ones, of which there is at least one. It is nil when the only one was
// set aside.
func (w *World) pick() *task {
	n := w.ready.n
	if n == 1 && !w.sched.Starve {
		return w.ready.take(0)
	}
	var t *task
	switch w.sched.Kind {
	case Priority:
		t = w.pickPriority(n)
	case FIFO:
		t = w.ready.take(0)
	default:
		t = w.ready.take(w.Choose(n))
	}
	if w.sched.Starve && w.steps >= w.sched.nextStarve {
		w.sched.nextStarve = w.steps + 1 + int64(w.Choose(w.sched.StarveGap))
		switch {
		case w.ready.n > 0:
			w.starve(t)
			return w.pick()
		case w.sched.Alone:
			w.starve(t)
			return nil
		}
	}
	return t
}

func (w *World) pickPriority(n int) *task {
	if w.steps%fairEvery == fairEvery-1 {
		return w.ready.take(0)
	}
	best := 0
	for i := 1; i < n; i++ {
		if (*w.ready.slot(i)).priority > (*w.ready.slot(best)).priority {
			best = i
		}
	}
	t := w.ready.take(best)
	if w.steps >= w.sched.nextChange {
		w.sched.nextChange = w.steps + 1 + int64(w.Choose(w.sched.ChangeGap))
		w.sched.lowest--
		t.priority = w.sched.lowest
	}
	return t
}

// starve sets a runnable task aside for a while. Its timer is free: only parked tasks use theirs.
func (w *World) starve(t *task) { w.setAside(t, w.Duration(0, w.sched.StarveFor)) }

// linger sets the running task aside, perhaps, at the point where the policy wants some to stay.
func (w *World) linger(t *task, at *place) {
	if !w.Chance(3, 4) {
		w.reschedulePoint(t, at)
		return
	}
	at.Lingered++
	w.setAside(t, w.Duration(0, w.sched.LingerFor))
	t.at = at
	w.suspend(t)
	t.at = nil
}

// Linger lets tasks stay at the point of that name from now on, for as long as [Policy.LingerFor]; "" ends it.
func (w *World) Linger(point string, most time.Duration) {
	w.sched.Linger = point
	if most > 0 {
		w.sched.LingerFor = most
	}
}

func (w *World) setAside(t *task, d time.Duration) {
	w.stats.Starved++
	t.state = stateStarved
	t.timer.kind = timerRelease
	w.timers.arm(&t.timer, w.now+int64(d))
	if w.Logging() {
		w.Logf("starve %s for %v", t, d)
	}
}
