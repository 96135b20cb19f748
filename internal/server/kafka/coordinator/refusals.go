package coordinator

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/kafka/backend"
)

// refused converts an error of a call about a group into a refusal in the words of other ports than Kafka's. What is
// none of those is returned as it is.
func (c *Coordinator) refused(id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*record.Refusal)):
		return err
	case errors.Is(err, kerr.NotCoordinator):
		return c.elsewhere()
	case errors.Is(err, kerr.CoordinatorLoadInProgress), errors.Is(err, kerr.CoordinatorNotAvailable):
		return record.Refuse(record.NotLeader, "this node coordinates consumer groups, and does not know yet all that they have committed")
	case errors.Is(err, kerr.GroupIDNotFound):
		return record.Refuse(record.Precondition, "there is no consumer group %q", id)
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.UnknownMemberID):
		return record.Refuse(record.Precondition, "the consumer group %q has members: stop them, or evict them, first", id)
	case errors.Is(err, kerr.InvalidGroupID):
		return record.Refuse(record.Invalid, "which consumer group is not said")
	case errors.Is(err, kerr.InvalidCommitOffsetSize):
		return record.Refuse(record.Busy, "the offsets of consumer groups have the memory that is left for them: delete groups that are not used, then try again")
	}
	return err
}

// elsewhere refuses what only the coordinator answers, and names it if it is known.
func (c *Coordinator) elsewhere() error {
	l, err := c.node.KnownInfo(backend.System, backend.OffsetsLog)
	switch {
	case err != nil:
		return err
	case l.Leader == "":
		return record.Refuse(record.NotLeader, "the log of what consumer groups have committed has no leader at the moment")
	}
	r := record.Refuse(record.NotLeader, "another node coordinates consumer groups")
	r.Leader = l.Leader
	return r
}
