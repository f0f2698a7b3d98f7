package model

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// owner is a real owner of one copy, in a few lines: it generates legal histories for the specification.
type owner struct {
	rng    *rand.Rand
	now    int64
	nonce  int64
	state  copyState
	handed []int64 // nonces that clients hold
	ops    []porcupine.Operation
	expiry int64
}

const visibility = 1000

func (o *owner) pass(most int64) int64 {
	o.now += 1 + o.rng.Int64N(most)
	return o.now
}

func (o *owner) add(in CopyInput, out CopyOutput, ret int64) {
	in.Ret = ret
	o.ops = append(o.ops, porcupine.Operation{ClientId: len(o.ops) % 8, Input: in, Call: in.Call, Output: out, Return: ret})
}

func (o *owner) instant(op CopyOp, nonce int64) {
	t := o.pass(50)
	o.add(CopyInput{Op: op, Nonce: nonce, Call: t, ExpiryLow: t + visibility, ExpiryHigh: t + visibility}, OK, t)
}

func (o *owner) expire() {
	if o.state.phase == leased && o.now >= o.expiry {
		o.state = copyState{}
	}
}

// step does one thing that the contract allows.
func (o *owner) step() {
	o.pass(300)
	o.expire()
	switch o.rng.IntN(8) {
	case 0, 1, 2:
		if o.state.phase == free {
			o.nonce++
			o.instant(OpReserve, o.nonce)
			o.state, o.expiry = copyState{phase: leased, nonce: o.nonce}, o.now+visibility
			o.handed = append(o.handed, o.nonce)
		}
	case 3:
		if o.state.phase == leased && o.rng.IntN(3) == 0 {
			o.instant(OpRelease, o.state.nonce)
			o.state = copyState{}
		}
	case 4:
		if o.rng.IntN(4) == 0 {
			o.instant(OpCrash, 0)
			if o.state.phase == leased || o.rng.IntN(2) == 0 {
				o.state = copyState{}
			}
		}
	default:
		o.client()
	}
}

// client acks, extends or nacks with a handle that was handed out at some time.
func (o *owner) client() {
	if len(o.handed) == 0 {
		return
	}
	nonce := o.handed[o.rng.IntN(len(o.handed))]
	op := []CopyOp{OpAck, OpAck, OpExtend, OpNack}[o.rng.IntN(4)]
	call := o.now
	at := o.pass(40) // when it takes effect
	o.expire()
	out := Gone
	in := CopyInput{Op: op, Nonce: nonce, Call: call}
	if o.state.phase == leased && o.state.nonce == nonce {
		out = OK
		switch op {
		case OpAck:
			o.state = copyState{phase: settled}
		case OpNack:
			o.state = copyState{}
		case OpExtend:
			o.expiry = at + visibility
		}
	}
	ret := o.pass(40)
	in.ExpiryLow, in.ExpiryHigh = call+visibility, ret+visibility
	if o.rng.IntN(12) == 0 {
		out, ret = Unknown, 1<<60
	}
	o.add(in, out, ret)
}

// finish delivers and acks the copy if it is not settled, as a drain does.
func (o *owner) finish() {
	o.now += 2 * visibility
	o.expire()
	if o.state.phase != settled {
		o.nonce++
		o.instant(OpReserve, o.nonce)
		o.add(CopyInput{Op: OpAck, Nonce: o.nonce, Call: o.now + 1}, OK, o.now+2)
	}
	o.now += 10
	o.add(CopyInput{Op: OpFinal, Call: o.now}, OK, o.now)
}

func legalHistory(seed uint64) []porcupine.Operation {
	o := &owner{rng: rand.New(rand.NewPCG(seed, 1))}
	for range 5 + o.rng.IntN(30) {
		o.step()
	}
	o.finish()
	return o.ops
}

func judge(ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(Copy(), ops, 10*time.Second)
}

// Soundness: what a correct owner does is never called illegal.
func TestLegalHistoriesPass(t *testing.T) {
	for seed := range uint64(3000) {
		require.Equal(t, porcupine.Ok, judge(legalHistory(seed)), "seed %d", seed)
	}
}

// Detection: each way of breaking a history is found whenever it really breaks it.
func TestIllegalHistoriesFail(t *testing.T) {
	breakers := map[string]func(o *owner){
		"two live leases": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.instant(OpReserve, o.nonce+2)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 2, Call: o.now + 1}, OK, o.now+2)
		},
		"ack with another lease's handle": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 77, Call: o.now + 1}, OK, o.now+2)
		},
		"ack long after the lease ended": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.now += 3 * visibility
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 1, Call: o.now + 1}, OK, o.now+2)
		},
		"a live handle refused": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.add(CopyInput{Op: OpExtend, Nonce: o.nonce + 1, Call: o.now + 1}, Gone, o.now+2)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 1, Call: o.now + 3}, OK, o.now+4)
		},
		"delivered again after it was settled": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 1, Call: o.now + 1}, OK, o.now+2)
			o.now += 5
			o.instant(OpReserve, o.nonce+2)
		},
		"acked twice": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 1, Call: o.now + 1}, OK, o.now+2)
			o.add(CopyInput{Op: OpAck, Nonce: o.nonce + 1, Call: o.now + 3}, OK, o.now+4)
			o.now += 5
		},
		"never settled": func(o *owner) {
			o.instant(OpReserve, o.nonce+1)
		},
	}
	for name, spoil := range breakers {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				o := &owner{rng: rand.New(rand.NewPCG(seed, 2))}
				for range 3 + o.rng.IntN(8) {
					o.step()
				}
				o.now += 2 * visibility // no lease lives, and no unknown operation explains what follows
				kept := o.ops[:0]
				for _, op := range o.ops {
					if op.Output != Unknown {
						kept = append(kept, op)
					}
				}
				o.ops = kept
				o.instant(OpCrash, 0) // nor is it settled for good
				spoil(o)
				o.now += 10
				o.add(CopyInput{Op: OpFinal, Call: o.now}, OK, o.now)
				require.Equal(t, porcupine.Illegal, judge(o.ops), "seed %d", seed)
			}
		})
	}
}
