package backend

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/protocol"
)

// Call is the context of a request for its handler.
type Call struct {
	Node   Node
	Ctx    context.Context // ends when the connection does, or when the server stops
	Caller verbs.Caller
	Client string // the id that the client claims
	// Local and Remote are the two sides of the connection.
	Local, Remote net.Addr
	// Release releases the request's memory before a long wait. The handler must not use the
	// request afterwards.
	Release func()
	// PayBy is the one of the call's reads, see reading.Request.
	PayBy time.Time

	Nodes *Nodes
}

// May returns Kafka's error if the client lacks a right.
func (q *Call) May(v *guard.Verb, name string) error {
	return protocol.DeniedOn(v.Of(name), q.Node.May(q.Caller, v, name))
}

// Principal is the principal whose share of the node's memory for groups the client uses. It is
// empty if rights are not enforced.
func (q *Call) Principal() string { return PrincipalOf(q.Node, q.Caller) }

// PrincipalOf returns Call.Principal for a caller.
func PrincipalOf(n Node, c verbs.Caller) string {
	if c.By == nil || !n.Enforced() {
		return ""
	}
	return c.By.String()
}

// System is the server itself as a caller, for the client: what it does takes the client's turns.
func (q *Call) System() verbs.Caller { return verbs.Caller{System: true, By: q.Caller.By} }

// Topic finds a topic by name. The error is a *record.Refusal.
func (q *Call) Topic(name string) (verbs.Topic, error) {
	if _, ok := LogOf(name, 0); !ok {
		return verbs.Topic{}, record.Refuse(record.LogNotFound, "there is no topic %q", name)
	}
	return q.Node.Topic(q.Ctx, q.Caller, name)
}

// TopicFor is Topic for a verb other than observe.
func (q *Call) TopicFor(v *guard.Verb, name string) (verbs.Topic, error) {
	if _, ok := LogOf(name, 0); !ok {
		return q.Topic(name)
	}
	if err := q.May(v, name); err != nil {
		return verbs.Topic{}, err
	}
	return q.Node.Topic(q.Ctx, System, name)
}

// Complete returns the bounds of a partition's log after this node has learned everything that was
// committed before the call, so that the bounds include everything acknowledged with acks=all.
// Without this, a follower, or a leader that was just elected or replaced, may return bounds that
// look like a truncated log.
func (q *Call) Complete(topic string, partition, epoch int32) (log string, b verbs.Bounds, err error) {
	log, ok := LogOf(topic, partition)
	if !ok {
		return "", b, kerr.UnknownTopicOrPartition
	}
	if b, err = q.Node.Bounds(q.Caller, log); err != nil {
		return "", b, err
	}
	if err := CheckEpoch(b, epoch); err != nil {
		return "", b, err
	}
	if _, err = q.Node.Info(q.Ctx, q.Caller, log); err != nil {
		return "", b, err
	}
	b, err = q.Node.Bounds(q.Caller, log)
	return log, b, err
}

// CheckEpoch refuses a client that knows another leader epoch than this node.
func CheckEpoch(b verbs.Bounds, epoch int32) error {
	switch {
	case epoch < 0 || epoch == int32(b.Term):
		return nil
	case epoch < int32(b.Term):
		return kerr.FencedLeaderEpoch
	}
	return kerr.UnknownLeaderEpoch
}
