package backend

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/node/verbs"
)

// Complete returns the bounds of a partition's log once this node knows all that
// was committed before the call, so that everything acknowledged with acks=all is
// within them. A leader that has just been elected, or replaced, and a follower do
// not know it without asking; what they would answer looks like a truncated log.
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

// CheckEpoch refuses a client that knows of another leadership than this node.
func CheckEpoch(b verbs.Bounds, epoch int32) error {
	switch {
	case epoch < 0 || epoch == int32(b.Term):
		return nil
	case epoch < int32(b.Term):
		return kerr.FencedLeaderEpoch
	}
	return kerr.UnknownLeaderEpoch
}
