package client

import (
	"context"
	"net/http"
)

// Verb is what is done with a lease.
type Verb int

// The verbs.
const (
	VerbAck    Verb = iota // the message is done: it is not delivered again
	VerbExtend             // the lease is renewed to one visibility timeout from now
	VerbNack               // the lease ends: the message is delivered again at once
)

// extend is the parameter of each verb, empty for none.
var extend = [...]string{VerbAck: "", VerbExtend: "true", VerbNack: "0"}

// Ack settles the message that the handle was given for: it is not delivered again.
func (c *Client) Ack(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, VerbAck)
}

// Extend renews the lease to one visibility timeout from now.
func (c *Client) Extend(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, VerbExtend)
}

// Nack ends the lease: the message is delivered again at once.
func (c *Client) Nack(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, VerbNack)
}

func (c *Client) settle(ctx context.Context, topic, handle string, v Verb) error {
	var q params
	q.add("receipt_handle", handle)
	v.param(&q)
	op := call{method: http.MethodPost, path: topicPath(topic, "/ack"), query: q.String(), want: http.StatusNoContent}
	if v.ends() {
		op.maybe, op.done = mayBeSettled, isGone
	}
	_, err := c.do(ctx, op)
	return err
}

// ends reports whether the lease is gone once the verb is done: an extension that was done leaves it alive.
func (v Verb) ends() bool { return v != VerbExtend }

func (v Verb) param(q *params) {
	if extend[v] != "" {
		q.add("extend", extend[v])
	}
}
