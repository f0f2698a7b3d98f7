package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// registry is a real owner of one topic name: it generates legal histories. Operations take effect one after the other, and
// their calls overlap as those of many clients do.
type registry struct {
	rng   *rand.Rand
	now   int64
	ids   int
	state topicState
	h     TopicHistory
	calls int
}

func (r *registry) step() {
	r.now += 1 + r.rng.Int64N(10)
	if r.rng.IntN(15) == 0 {
		r.h.Crash(r.now)
		return
	}
	op := TopicOp(r.rng.IntN(4))
	out := r.apply(op)
	call, ret := r.now-r.rng.Int64N(20), r.now+r.rng.Int64N(20)
	if r.rng.IntN(8) == 0 {
		out, ret = TopicOutput{Result: TopicUnknown}, 0
	}
	r.add(op, out, call, ret)
}

func (r *registry) add(op TopicOp, out TopicOutput, call, ret int64) {
	r.calls++
	r.h.Add(r.calls, op, out, call, ret)
}

// apply is the specification.
func (r *registry) apply(op TopicOp) TopicOutput {
	if r.state.exists == (op == TopicCreate) {
		return TopicOutput{Result: TopicRefused}
	}
	switch op {
	case TopicDelete:
		r.state = topicState{}
		return TopicOutput{}
	case TopicCreate, TopicPurge:
		r.ids++
		r.state = topicState{true, fmt.Sprint("id", r.ids)}
	}
	return TopicOutput{ID: r.state.id}
}

func (r *registry) do(op TopicOp, out TopicOutput) {
	r.now += 10
	ret := r.now + 5
	if out.Result == TopicUnknown {
		ret = 0
	}
	r.add(op, out, r.now, ret)
}

func judgeTopic(h *TopicHistory) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(Topic(), h.Operations(), 10*time.Second)
}

// Soundness: what a correct node does is never called illegal.
func TestLegalTopicHistoriesPass(t *testing.T) {
	for seed := range uint64(2000) {
		r := &registry{rng: rand.New(rand.NewPCG(seed, 1)), now: 100}
		for range 5 + r.rng.IntN(40) {
			r.step()
		}
		require.Equal(t, porcupine.Ok, judgeTopic(&r.h), "seed %d\n%v", seed, &r.h)
	}
}

// Detection: each way of breaking a history is found, whatever legal operations came before.
func TestIllegalTopicHistoriesFail(t *testing.T) {
	done := func(id string) TopicOutput { return TopicOutput{ID: id} }
	refused, unknown := TopicOutput{Result: TopicRefused}, TopicOutput{Result: TopicUnknown}
	for name, spoil := range map[string]func(r *registry){
		"a create that was answered is not there": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicGet, refused)
		},
		"created twice": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicCreate, done("y"))
		},
		"a deleted topic comes back": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicDelete, done(""))
			r.h.Crash(r.now + 7)
			r.do(TopicGet, done("x"))
		},
		"deleted twice": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicDelete, done(""))
			r.do(TopicDelete, done(""))
		},
		"a delete refused although the topic is there": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicDelete, refused)
		},
		"a purge leaves no topic": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicPurge, unknown)
			r.h.Crash(r.now + 7)
			r.do(TopicGet, refused)
		},
		"a purge that was answered is undone": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicPurge, done("y"))
			r.do(TopicGet, done("x"))
		},
		"an incarnation that nobody made": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicGet, done("z"))
		},
		"an unanswered create brings an old incarnation back": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicDelete, done(""))
			r.do(TopicCreate, unknown)
			r.do(TopicGet, done("x"))
		},
		"what had not happened at the crash happens after it": func(r *registry) {
			r.do(TopicCreate, done("x"))
			r.do(TopicDelete, unknown)
			r.h.Crash(r.now + 7)
			r.do(TopicGet, done("x"))
			r.do(TopicGet, refused)
		},
		"refused for no reason": func(r *registry) {
			r.do(TopicCreate, refused)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				r := &registry{rng: rand.New(rand.NewPCG(seed, 2)), now: 100}
				for range r.rng.IntN(10) {
					r.step()
				}
				r.finish()
				spoil(r)
				require.Equal(t, porcupine.Illegal, judgeTopic(&r.h), "seed %d\n%v", seed, &r.h)
			}
		})
	}
}

// finish ends what is under way and leaves the name certainly free.
func (r *registry) finish() {
	r.now += 100
	r.h.Crash(r.now)
	out := r.apply(TopicDelete)
	r.do(TopicDelete, out)
	r.do(TopicGet, TopicOutput{Result: TopicRefused})
	r.now += 10
}
