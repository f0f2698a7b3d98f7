package torture

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"narad/sim/model"
)

// copyBudget bounds the porcupine check of one stored copy.
const copyBudget = 5 * time.Second

// never is the end of what had no answer in a life that has not ended.
const never = int64(1) << 62

// linear is the verdict of porcupine on all stored copies.
type linear struct {
	checked int
	unknown int      // not decided in time
	illegal []copyID // their histories are not linearizable
	page    []byte   // porcupine's drawing of the first of them
}

// linearize checks the history of every stored copy against the sequential specification of one (INV-06), with the demand
// that it ends settled: the queue was drained at end.
func (h *history) linearize(end time.Duration) (v linear) {
	byCopy := map[copyID][]*lease{}
	c := checker{history: h, findings: &findings{}, leases: map[string]*lease{}}
	for i := range h.deliveries {
		c.deliver(&h.deliveries[i])
	}
	for i := range h.settled {
		c.attach(&h.settled[i])
	}
	for _, l := range c.order {
		byCopy[l.delivery.copy] = append(byCopy[l.delivery.copy], l)
	}
	spec := model.Copy()
	for _, copy := range sorted(byCopy) {
		ops := h.operations(byCopy[copy], end)
		switch verdict, info := porcupine.CheckOperationsVerbose(spec, ops, copyBudget); verdict {
		case porcupine.Ok:
			v.checked++
		case porcupine.Unknown:
			v.unknown++
		default:
			if v.illegal = append(v.illegal, copy); len(v.illegal) == 1 {
				v.page = draw(spec, info)
			}
		}
	}
	return v
}

func draw(spec porcupine.Model, info porcupine.LinearizationInfo) []byte {
	var page bytes.Buffer
	if err := porcupine.Visualize(spec, info, &page); err != nil {
		return []byte(err.Error())
	}
	return page.Bytes()
}

// operations is the history of one copy. Between lives that saw it lies one crash: more of them in a row are the same.
func (h *history) operations(leases []*lease, end time.Duration) (ops []porcupine.Operation) {
	lives := map[int]bool{}
	add := func(in model.CopyInput, out model.CopyOutput) {
		ops = append(ops, porcupine.Operation{Input: in, Call: in.Call, Output: out, Return: in.Ret})
	}
	for _, l := range leases {
		d := l.delivery
		lives[d.life] = true
		in := h.input(model.OpReserve, d.handle, d.call, d.ret)
		add(in, model.OK)
		for _, s := range l.settles {
			lives[s.life] = true
			in := h.input([...]model.CopyOp{ack: model.OpAck, nack: model.OpNack, extend: model.OpExtend}[s.verb], s.handle, s.call, s.ret)
			if s.outcome == unknown { // it happened before the end of the process that was asked, or never
				in.Ret = never
				if s.life < len(h.deaths) {
					in.Ret = max(int64(h.deaths[s.life].over), in.Call)
				}
				in.ExpiryHigh = in.Ret + int64(h.visibility)
			}
			add(in, [...]model.CopyOutput{unknown: model.Unknown, ok: model.OK, refused: model.Gone}[s.outcome])
		}
	}
	last := -1
	for _, life := range sortedLives(lives) {
		if last >= 0 {
			d := h.deaths[last]
			add(model.CopyInput{Op: model.OpCrash, Call: int64(d.at), Ret: int64(max(d.over, d.at))}, model.OK)
		}
		last = life
	}
	add(model.CopyInput{Op: model.OpFinal, Call: max(int64(end), latest(ops)+1), Ret: never + 1}, model.OK)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

func (h *history) input(op model.CopyOp, handle string, call, ret time.Duration) model.CopyInput {
	return model.CopyInput{
		Op: op, Nonce: nonceOf(handle), Call: int64(call), Ret: int64(ret),
		ExpiryLow: int64(call + h.visibility), ExpiryHigh: int64(ret + h.visibility),
	}
}

// nonceOf reads the nonce of a receipt handle, partition:offset:nonce; 0 for a handle that is none.
func nonceOf(handle string) int64 {
	n, err := strconv.ParseInt(handle[strings.LastIndexByte(handle, ':')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func sortedLives(set map[int]bool) (lives []int) {
	for l := range set {
		lives = append(lives, l)
	}
	slices.Sort(lives)
	return lives
}

// latest is the last instant at which something was called or answered.
func latest(ops []porcupine.Operation) (at int64) {
	for _, op := range ops {
		if at = max(at, op.Call); op.Return < never {
			at = max(at, op.Return)
		}
	}
	return at
}
