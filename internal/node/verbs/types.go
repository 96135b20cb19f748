package verbs

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
)

// Caller is the caller of a verb. The node does not check it: internal/server/guard has checked its
// rights before.
type Caller struct {
	// By is the caller as the servers know it, or nil.
	By Described
	// System is set if a part of the server itself calls: it may use the logs of the system except
	// the catalog.
	System bool
	// Log is the id of the log that the caller means; 0 means any log with the name. Every verb on
	// another log with that name is refused with LogReplaced.
	Log uint64
	// PrincipalNumber is the number of the caller's principal in the ids of sessions that it opens, see
	// record.SessionID.Principal; 0 means no principal.
	PrincipalNumber uint32
	// Principal is the authenticated caller, such as user/alice. It is empty if the caller is not
	// known, or rights are not enforced.
	Principal string
	// Creator is the principal whose share of the cluster's logs includes logs that the caller
	// creates. It is empty if rights are not enforced, and for callers that may administer the
	// cluster.
	Creator string
	// Trace is the caller's span, the parent of the spans of its appends, or nil.
	Trace *trace.SpanContext
	// Refused counts the items of a request that are refused for lack of a right, if a request may
	// have many: a few of them count as one refusal, see guard. If it is nil, each counts.
	Refused *atomic.Int32
	// Request identifies the call among all calls of all callers, and is the same in every attempt.
	// It is empty if the caller does not repeat the call.
	Request string
}

// Described is a caller as the servers know it. Its String is for people.
type Described interface {
	fmt.Stringer
	// Whose returns the key by which the resources of a client are counted: its principal, or else
	// its address.
	Whose() string
}

// whose returns the key by which the caller's use of resources is counted; empty: the servers do
// not know it.
func (c Caller) whose() string {
	if c.By == nil {
		return ""
	}
	return c.By.Whose()
}

// identify refuses a log that has the requested name, but is not the log that the caller knows by
// that name.
func (c Caller) identify(name string, id uint64) *record.Refusal {
	return cluster.Identify(name, c.Log, id)
}

// Info describes one log according to this node.
type Info struct {
	Name    string
	ID      uint64
	Config  settings.Config
	Created int64 // unix ms

	// Offsets in [Start, End) are committed and can be read.
	Start, End record.Offset

	BytesUsed  int64 // by this log's files (or memory) here
	BytesFree  int64 // left on this node's disk for all logs
	BytesTotal int64 // of this node's disk

	WriterTerm   record.WriterTerm
	OpenSessions int
	LeaderTerm   uint64
	Leader       string // address of the leader's gRPC port; empty: unknown
	Sealed       bool
	Full         bool   // appends are refused for lack of room
	Problem      string // empty, or why the log cannot be served here
	// Unknown means that this node holds no replica, and knows no node that does. Start, End and
	// BytesUsed are then meaningless.
	Unknown bool

	// Age is how old the value of End may be, as in Chunk.
	Age time.Duration
	// Replicas lists the known nodes that hold the log, by node: voters, then read replicas.
	Replicas []InfoReplica
}

// InfoReplica is the address of one replica of a log.
type InfoReplica struct {
	Node    string // name
	Address string // of its gRPC port
	Leader  bool
	// Reader means that it is a read replica.
	Reader bool
	Labels []cluster.Label // of the node
	// Lag is the number of records of the leader that it does not have, or nil if that is not
	// known. Only Info of the leader's node sets it.
	Lag *int64

	id uint64 // of the node
}

// Session is an append session as opened.
type Session struct {
	ID    record.SessionID
	Epoch record.Epoch
	Lease time.Duration
	Log   uint64 // id of its log
}
