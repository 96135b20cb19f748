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

// Caller is the caller of a verb. The node believes it: internal/server/guard has checked
// its rights before.
type Caller struct {
	// By is what the servers know of the caller; nil: nothing.
	By fmt.Stringer
	// System is set where a part of the server asks for itself: it may use the
	// logs that belong to the system, all but the catalog.
	System bool
	// Log is the id by which the caller knows the log that it names; 0: whichever
	// log has the name. Every verb on another log of that name is refused with
	// LogReplaced.
	Log uint64
	// Owner goes into the ids of sessions that the caller opens, see record.SessionID.Owner; 0: nobody's.
	Owner uint32
	// Principal is who the caller is, such as user/alice, where that has been judged; empty: it is not known, or
	// rights are not enforced.
	Principal string
	// Creator is the principal whose share of the cluster's logs the caller's new ones take; empty: nobody's,
	// where rights are not enforced and of who may administer the cluster.
	Creator string
	// Trace is the caller's span, which the spans of its appends continue; nil: none.
	Trace *trace.SpanContext
	// Refused counts what a request asks for and is refused for want of a right, where it may ask for much: it
	// counts as refused once for all of a few, see guard. nil: each counts.
	Refused *atomic.Int32
	// Request names the call among all calls of all callers, and is the same in
	// every try of it; empty: nobody would try again.
	Request string
}

// name is what the servers call the caller; empty: nothing.
func (c Caller) name() string {
	if c.By == nil {
		return ""
	}
	return c.By.String()
}

// identify refuses a log that has the name that the caller asks for, but is not
// the log that the caller knows by that name.
func (c Caller) identify(name string, id uint64) *record.Refusal {
	return cluster.Identify(name, c.Log, id)
}

// Info describes one log as this node knows it.
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
	// Unknown: this node holds no replica, and has not heard of one that does.
	// Start, End and BytesUsed say nothing then.
	Unknown bool

	// Age is how old the knowledge of End may be, as in Chunk.
	Age time.Duration
	// Replicas lists who holds the log, by node, as far as known: voters, then read replicas.
	Replicas []InfoReplica
}

// InfoReplica is where one replica of a log can be reached.
type InfoReplica struct {
	Node    string // name
	Address string // of its gRPC port
	Leader  bool
	// Reader: it is a read replica.
	Reader bool
	Labels []cluster.Label // of the node
	// Lag is how many records it has less than the leader; nil: not known. Only Info of the
	// leader's node sets it.
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
