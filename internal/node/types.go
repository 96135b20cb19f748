package node

import (
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// Caller is who asks. It is anonymous for now; every verb takes it so that
// rights can be added without changing them.
type Caller struct {
	Name string
	// System is set where a part of the server asks for itself: it may use the
	// logs that belong to the system, all but the catalog.
	System bool
	// Log is the id by which the caller knows the log that it names; 0: whichever
	// log has the name. Every verb on another log of that name is refused with
	// LogReplaced.
	Log uint64
	// Request names the call among all calls of all callers, and is the same in
	// every try of it; empty: nobody would try again.
	Request string
}

// identify refuses a log that has the name that the caller asks for, but is not
// the log that the caller knows by that name.
func (c Caller) identify(name string, id uint64) *record.Refusal {
	return cluster.Identify(name, c.Log, id)
}

// Durability says what an acknowledgement rests on.
type Durability uint8

const (
	// Disk: fsynced on a majority of replicas.
	Disk Durability = iota
	// Memory: in the memory of a majority of replicas, nothing on disk.
	Memory
)

func (d Durability) String() string {
	if d == Memory {
		return "memory"
	}
	return "disk"
}

// Config is what a log is created with. Durability cannot be changed later.
type Config struct {
	Durability Durability
	// Retention trims records older than this, by the leader's time; 0: never.
	Retention time.Duration
	// RetentionBytes trims the oldest records beyond this size; 0: never.
	RetentionBytes int64
	// MaxBatchBytes bounds one encoded batch; 0: record.MaxBatchBytes.
	MaxBatchBytes int
	// Replicas is how many nodes are to hold the log, whether there are so many or
	// not; 0: three, or as many as there are.
	Replicas int
	// Fenced: once a writer term has been granted, appends without one are refused.
	Fenced bool
	// Revision counts the configurations that the log has had. A change is refused if it
	// is not of the one that the log has, so that two at once do not undo each other; 0:
	// whichever there is.
	Revision uint64
	// Settings are those of another protocol, as they were set there: its server
	// reads them, and the node only keeps them. nil in a change: as they are.
	Settings map[string]string
	// Topic and Partition are set for a partition of a Kafka topic other than
	// its first, see PartitionLog. They cannot be changed.
	Topic     string
	Partition int32
}

// Info describes one log as this node knows it.
type Info struct {
	Name    string
	ID      uint64
	Config  Config
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
	// Replicas lists who holds the log, by node, as far as known.
	Replicas []InfoReplica
}

// InfoReplica is where one replica of a log can be reached.
type InfoReplica struct {
	Node    string // name
	Address string // of its gRPC port
	Leader  bool
}

// Session is an append session as opened.
type Session struct {
	ID    record.SessionID
	Epoch record.Epoch
	Lease time.Duration
	Log   uint64 // id of its log
}
