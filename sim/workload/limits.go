package workload

import (
	"slices"
	"time"

	"narad/sim"
)

// Limits cut a drawn world down, to shrink a failure. Each bounds what the plan drew or what happens then; it shifts no
// choice that was made before it takes effect.
type Limits struct {
	Operations int           `json:"operations"` // calls of clients after which the traffic ends; topics are created all the same
	Strikes    int           `json:"strikes"`    // of the nemesis, and crashes armed for a recovery
	Traffic    time.Duration `json:"traffic_ns"`
	Producers  int           `json:"producers"` // per node
	Consumers  int           `json:"consumers"` // per node
	Topics     int           `json:"topics"`
	Partitions int           `json:"partitions"` // per topic
	Size       int           `json:"size"`       // of payloads, in bytes
	Policy     int           `json:"policy"`     // 0: every runnable task alike, none starves or lingers
	// FaultsBelow is one more than the number of file calls that may fail, Batch how many messages a client sends or asks for at once; 0: any
	// number.
	FaultsBelow int `json:"faults_below,omitempty"`
	Batch       int `json:"batch,omitempty"`
	// Without are numbers of client calls, counted from 0 with those that are left out, that are not made: as if the client had never
	// thought of it.
	Without []int `json:"without,omitempty"`
}

// cut applies the limits to a plan.
func (l *Limits) cut(p plan) plan {
	if l == nil {
		return p
	}
	if l.Policy <= 0 {
		p.Policy.Linger = ""
	}
	p.Traffic = min(p.Traffic, l.Traffic)
	p.Producers = min(p.Producers, l.Producers)
	p.Consumers = min(p.Consumers, l.Consumers)
	p.Size = min(p.Size, max(l.Size, 1))
	p.Topics = p.Topics[:min(len(p.Topics), max(l.Topics, 1))]
	for i := range p.Topics {
		p.Topics[i].Partitions = min(p.Topics[i].Partitions, max(l.Partitions, 1))
	}
	return p
}

func (l *Limits) policy(p sim.Policy) sim.Policy {
	if l != nil && l.Policy <= 0 {
		p.Kind, p.Starve, p.Linger = sim.Uniform, false, ""
	}
	return p
}

// used returns the limits that a run came up to: with these it would have been the same.
// The policy is the one that the world was made with: what is drawn for the plan depends on it, too, and may change it.
func (r *run) used(policy sim.Policy) Limits {
	l := Limits{
		Operations: r.operations, Strikes: r.strikes, Traffic: r.plan.Traffic, Producers: r.plan.Producers, Consumers: r.plan.Consumers,
		Topics: len(r.plan.Topics), Size: r.plan.Size, FaultsBelow: r.faults + 1, Batch: r.batch,
	}
	if r.limits != nil {
		for _, number := range r.limits.Without {
			if number < r.operations {
				l.Without = append(l.Without, number)
			}
		}
	}
	for _, t := range r.plan.Topics {
		l.Partitions = max(l.Partitions, t.Partitions)
	}
	if r.lingered || !isPlain(policy) || !isPlain(r.plan.Policy) {
		l.Policy = 1
	}
	return l
}

func isPlain(p sim.Policy) bool { return p.Kind == sim.Uniform && !p.Starve && p.Linger == "" }

// mayLinger reports whether tasks may be made to stay at a point.
func (r *run) mayLinger() bool {
	may := r.limits == nil || r.limits.Policy > 0
	r.lingered = r.lingered || may
	return may
}

// mayCall counts a call of a client and reports whether it may be made. The one past the limit ends the traffic.
func (r *run) mayCall(name string) answer {
	if r.draining {
		return answered
	}
	if r.limits != nil && r.operations >= r.limits.Operations {
		r.stopping = true
		return unsent
	}
	if r.record {
		r.calls = append(r.calls, CallMade{r.operations, r.w.Current().String(), name})
	}
	r.operations++
	if r.limits != nil {
		if _, out := slices.BinarySearch(r.limits.Without, r.operations-1); out {
			return omitted
		}
	}
	return answered
}

// CallMade is a client call of the traffic, which [Limits] may leave out.
type CallMade struct {
	Number       int
	Client, Name string
}

// mayFail counts a file call that is about to fail and reports whether it may.
func (r *run) mayFail() bool {
	if r.limits != nil && r.limits.FaultsBelow > 0 && r.faults+1 >= r.limits.FaultsBelow {
		return false
	}
	r.faults++
	return true
}

// batchOf limits how many messages a client sends or asks for at once.
func (r *run) batchOf(n int) int {
	if r.limits != nil && r.limits.Batch > 0 {
		n = min(n, r.limits.Batch)
	}
	r.batch = max(r.batch, n)
	return n
}

// mayStrike counts a strike and reports whether it may happen.
func (r *run) mayStrike() bool {
	if r.limits != nil && r.strikes >= r.limits.Strikes {
		return false
	}
	r.strikes++
	return true
}

// pause draws how long somebody does nothing, at most d. Choice 0 is the longest pause: zeros make a calm world, and
// no loop that only pauses can spin at one instant.
func (r *run) pause(d time.Duration) time.Duration {
	p := d - r.w.Duration(0, d)
	if r.plan.Grid > 0 {
		p -= p % r.plan.Grid
	}
	return p
}
