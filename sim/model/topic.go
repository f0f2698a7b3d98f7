package model

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// TopicOp is one thing that a client did to a topic name.
type TopicOp uint8

// Operations on a topic name.
const (
	TopicCreate TopicOp = iota
	TopicGet
	TopicDelete
	TopicPurge
)

// TopicOutput is what the client learned.
type TopicOutput struct {
	Result TopicResult
	ID     string // of a create, get or purge that was done
}

// TopicResult says how an operation ended.
type TopicResult uint8

// Results.
const (
	TopicDone    TopicResult = iota
	TopicRefused             // the name is taken, to a create; there is no such topic, to the others
	TopicUnknown             // no answer: done or not, before the call's end, which a crash of the node bounds
)

// TopicInput is an operation.
type TopicInput struct {
	Op TopicOp
	// Fresh says of a get that the incarnation it found is none that a create or purge was answered with. Only such a one can
	// come from an operation that got no answer.
	Fresh bool
}

// topicState is what a name leads to.
type topicState struct {
	exists bool
	id     string // empty: the incarnation of a create or purge without an answer, which nobody has seen yet
}

// Topic is the sequential specification of one topic name. What was answered is durable, so a crash changes nothing but that it
// ends the operations under way.
//
//	create(id)  absent → id              refused: exists
//	get(id)     exists, as id            refused: absent
//	delete      exists → absent          refused: absent
//	purge(id)   exists → id              refused: absent
func Topic() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{topicState{}} },
		Step: func(state, input, output any) []any {
			return stepTopic(state.(topicState), input.(TopicInput), output.(TopicOutput))
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return describeTopic(in.(TopicInput), out.(TopicOutput)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s.(topicState)) },
	}).ToModel()
}

func stepTopic(s topicState, in TopicInput, out TopicOutput) (next []any) {
	able := s.exists
	if in.Op == TopicCreate {
		able = !s.exists
	}
	if out.Result != TopicRefused && able {
		if to, ok := s.after(in, out); ok {
			next = append(next, to)
		}
	}
	if out.Result == TopicUnknown || out.Result == TopicRefused && !able {
		next = append(next, s)
	}
	return next
}

// after returns the state after an operation that was done; ok is false for a get of another incarnation.
func (s topicState) after(in TopicInput, out TopicOutput) (to topicState, ok bool) {
	switch in.Op {
	case TopicDelete:
		return topicState{}, true
	case TopicGet:
		if out.Result == TopicUnknown {
			return s, true
		}
		return topicState{true, out.ID}, s.id == out.ID || s.id == "" && in.Fresh
	}
	return topicState{true, out.ID}, true
}

func describeTopic(in TopicInput, out TopicOutput) string {
	op := [...]string{"create", "get", "delete", "purge"}[in.Op]
	result := [...]string{"done", "refused", "no answer"}[out.Result]
	if out.ID != "" {
		result += " " + out.ID
	}
	return op + " → " + result
}

// TopicHistory collects what clients did to one topic name.
type TopicHistory struct {
	ops      []porcupine.Operation
	answered map[string]bool // ids of creates and purges
}

// topicNever is after the end of every world.
const topicNever = int64(1) << 61

// Add notes an operation. Of one without an answer ret is when it had certainly ended, 0 when that is not known.
func (h *TopicHistory) Add(client int, op TopicOp, out TopicOutput, call, ret int64) {
	if h.answered == nil {
		h.answered = map[string]bool{}
	}
	if out.Result == TopicUnknown {
		out.ID = ""
		if ret == 0 {
			ret = topicNever
		}
	}
	if op == TopicCreate || op == TopicPurge {
		h.answered[out.ID] = true
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: TopicInput{Op: op}, Call: call, Output: out, Return: ret})
}

// Crash notes that the node died at now: what was under way has happened by then or never will.
func (h *TopicHistory) Crash(now int64) {
	for i := range h.ops {
		if h.ops[i].Return == topicNever {
			h.ops[i].Return = max(now, h.ops[i].Call)
		}
	}
}

// Operations returns the history for porcupine.
func (h *TopicHistory) Operations() []porcupine.Operation {
	for i := range h.ops {
		in := h.ops[i].Input.(TopicInput)
		in.Fresh = in.Op == TopicGet && !h.answered[h.ops[i].Output.(TopicOutput).ID]
		h.ops[i].Input = in
	}
	return h.ops
}

// String lists the history, in the order of the calls' ends.
func (h *TopicHistory) String() string {
	text := ""
	for _, op := range h.ops {
		text += fmt.Sprintf("  %d … %d  %s\n", op.Call, op.Return, describeTopic(op.Input.(TopicInput), op.Output.(TopicOutput)))
	}
	return text
}
