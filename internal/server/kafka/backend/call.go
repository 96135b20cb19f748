package backend

import (
	"context"
	"net"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/protocol"
)

// Call is what the handler of a request gets besides the request.
type Call struct {
	Node   Node
	Ctx    context.Context // ends when the connection does, or when the server stops
	Caller verbs.Caller
	Client string // as the client calls itself
	// Local and Remote are the two sides of the connection.
	Local, Remote net.Addr
	// Release gives the request's memory back before a long wait; the handler uses
	// nothing of the request afterwards.
	Release func()

	Nodes *Nodes
}

// May refuses what the client has no right to, in Kafka's words.
func (q *Call) May(v *guard.Verb, name string) error {
	return protocol.DeniedOn(v.Of(name), q.Node.May(q.Caller, v, name))
}

// Principal is whose share of what the node has for groups the client takes; empty: nobody's, where rights are
// not enforced.
func (q *Call) Principal() string { return PrincipalOf(q.Node, q.Caller) }

// PrincipalOf is Call.Principal of a caller.
func PrincipalOf(n Node, c verbs.Caller) string {
	if c.By == nil || !n.Enforced() {
		return ""
	}
	return c.By.String()
}

// Topic finds a topic by name. The error is a *record.Refusal.
func (q *Call) Topic(name string) (verbs.Topic, error) {
	if _, ok := LogOf(name, 0); !ok {
		return verbs.Topic{}, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	return q.Node.Topic(q.Ctx, q.Caller, name)
}

// TopicFor is Topic for a verb that need not be to observe it.
func (q *Call) TopicFor(v *guard.Verb, name string) (verbs.Topic, error) {
	if _, ok := LogOf(name, 0); !ok {
		return q.Topic(name)
	}
	if err := q.May(v, name); err != nil {
		return verbs.Topic{}, err
	}
	return q.Node.Topic(q.Ctx, System, name)
}
