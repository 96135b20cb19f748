// Package backend has the handlers' view of a node and of a call: the verbs, the logs of
// partitions, and the brokers.
package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/guard"
)

// Node has the verbs of a node that the server calls. It is a guard.Guard; see node.Node for the
// contract of each verb.
type Node interface {
	ClusterID() string
	Members() (members []membership.Member, self uint64)
	ClusterStatus(ctx context.Context, c verbs.Caller) (verbs.ClusterStatus, error)

	Append(c verbs.Caller, log string, a *sequence.Append, written, done func(sequence.Answer))
	Read(ctx context.Context, c verbs.Caller, log string, r reading.Request) (guard.Reader, error)
	Trim(ctx context.Context, c verbs.Caller, log string, before record.Offset, fastForward bool) (start, end record.Offset, err error)
	ReserveSession(ctx context.Context, c verbs.Caller) (record.SessionID, error)

	Bounds(c verbs.Caller, log string) (verbs.Bounds, error)
	ConfigOf(log string) *settings.Config
	Await(c verbs.Caller, log string, since verbs.Bounds, w *reading.Waiter) (leave func(), err error)
	Info(ctx context.Context, c verbs.Caller, log string) (verbs.Info, error)
	StoredBy(ctx context.Context, c verbs.Caller, log string) (map[uint64]record.Offset, error)
	KnownInfo(c verbs.Caller, log string) (verbs.Info, error)
	CreateLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error)

	Producers(ctx context.Context, c verbs.Caller, log string) ([]sequence.Producer, error)
	TransferLeader(ctx context.Context, c verbs.Caller, log, to string) error

	Topic(ctx context.Context, c verbs.Caller, name string) (verbs.Topic, error)
	KnownTopic(c verbs.Caller, id cluster.TopicID) (verbs.KnownTopic, bool)
	LearnTopics(ctx context.Context, c verbs.Caller) error
	PaceList(ctx context.Context, c verbs.Caller) error
	Topics(ctx context.Context, c verbs.Caller) ([]verbs.Topic, error)
	CreateTopic(ctx context.Context, c verbs.Caller, name string, partitions int32, config settings.Config, on [][]uint64) (verbs.Topic, error)
	AddPartitions(ctx context.Context, c verbs.Caller, name string, partitions int32, on [][]uint64) error
	ConfigureTopic(ctx context.Context, c verbs.Caller, name string, config settings.Config) error
	DeleteTopic(ctx context.Context, c verbs.Caller, name string) error

	Rights
}

// Rights are the checks of callers that the server makes. See guard.Guard.
type Rights interface {
	Identify(certified identity.Principal, from net.Addr, authorization string) (*guard.Holder, *record.Refusal)
	Login(mechanism string, from net.Addr) (*guard.Login, error)
	Enforced() bool
	SlowHolder(ctx context.Context, h *guard.Holder)
	Rules() *access.Rules
	Believed(h *guard.Holder) bool
	Connected(port string, most int, from net.Addr, end func()) (proved func(ctx context.Context) error, left func())
	May(c verbs.Caller, v *guard.Verb, name string) error
	Sees(c verbs.Caller, o access.Object) bool
	HoldsSome(c verbs.Caller, right access.Rights, kind access.Kind) bool
	Audit(c verbs.Caller, v *guard.Verb, name string, err error)
	Users(ctx context.Context, c verbs.Caller) ([]access.User, error)
	Grants(ctx context.Context, c verbs.Caller) (all []access.Grant, enforced bool, err error)
	AddGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error
	RemoveGrants(ctx context.Context, c verbs.Caller, all []access.Grant) error
	Quotas(ctx context.Context, c verbs.Caller) (all []access.Quota, at string, uses []budget.Consumption, err error)
	ChangeQuota(ctx context.Context, c verbs.Caller, subject string, validateOnly bool, change func(*access.Quota)) error
	ChargeRequests(c verbs.Caller, n int) guard.Throttle
	ChargeAppend(c verbs.Caller, log string, bytes int, looked *guard.Looked) (guard.Throttle, *record.Refusal)
	ChargeRead(c verbs.Caller, log string, bytes int) guard.Throttle
	OwesRead(c verbs.Caller, log string) (caller guard.Throttle, onLog time.Duration, atOnce int)
	Holds(t guard.Throttle) bool
}

// System is the server itself as a caller.
var System = verbs.Caller{System: true}

// LogOf returns the name of the log of a partition, and reports whether there can be one: the
// system's logs are not topics, and neither are the logs of other partitions.
func LogOf(topic string, partition int32) (log string, ok bool) {
	if topic == "" || verbs.IsSystem(topic) || strings.Contains(topic, "/") || partition < 0 {
		return "", false
	}
	return cluster.PartitionLog(topic, partition), true
}

// TopicName matches valid names of topics.
var TopicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Fold passes the chunks of a read of a log to fold, which releases each.
func Fold(ctx context.Context, n Node, c verbs.Caller, log string, q reading.Request, fold func(*reading.Chunk) error) error {
	r, err := n.Read(ctx, c, log, q)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fold(&c); err != nil {
			return err
		}
	}
}

// OffsetsLog is the log with the committed offsets of consumer groups. Its leader coordinates all
// groups.
const OffsetsLog = "_offsets"

// OffsetsTopic is the name of the log of committed offsets for Kafka's tools. It appears as an
// internal topic with one partition, as tools expect, and as empty, since they cannot decode the
// records of the log.
const OffsetsTopic = "__consumer_offsets"

// IsOffsetsTopic reports whether a partition is the one of the internal topic.
func IsOffsetsTopic(n Node, topic string, partition int32) bool {
	if topic != OffsetsTopic || partition != 0 {
		return false
	}
	_, err := n.KnownInfo(System, OffsetsLog)
	return err == nil
}
