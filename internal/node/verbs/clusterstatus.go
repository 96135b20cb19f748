package verbs

import (
	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// ClusterStatus is the state of the cluster as this node sees it. For a node that does not answer,
// it has the last known state or none.
type ClusterStatus struct {
	ClusterID string
	Level     int          // the feature level
	Nodes     []NodeStatus // by id
	Logs      []LogStatus  // by name, the catalog among them
	// Rules are the default placement rules, by prefix of the logs' names.
	Rules map[string]cluster.Rule
}

// NodeStatus is one node of the cluster.
type NodeStatus struct {
	ID      uint64
	Name    string
	Address string // of its gRPC port, which is the one for other nodes too
	Alive   bool   // it answered just now
	Version string // of the program it runs; empty: unknown
	HTTP    string // the address that its HTTP port listens at; empty: none, or unknown
	// OldestLevel to NewestLevel are the feature levels that it understands; 0: unknown.
	OldestLevel int
	NewestLevel int
	BytesFree   int64
	BytesTotal  int64
	// MemoryUsed holds the bytes in use by each part of its memory; MemoryTotal is the budget.
	MemoryUsed  int64
	MemoryTotal int64
	Labels      []cluster.Label
	Drained     bool     // it must not lead logs
	Waits       []string // why it must not be stopped yet, if it is drained
}

// LogStatus is one log with all its replicas.
type LogStatus struct {
	Name       string
	ID         uint64
	Leader     string // name of the node; empty: none known
	Term       uint64
	Start, End record.Offset // as the leader knows them
	Replicas   []ReplicaStatus
	// Healthy means that there is a leader, every replica votes and keeps up, and the placement
	// follows the rule. Read replicas do not count.
	Healthy bool
	Rule    *cluster.Rule // its own or that of a prefix of its name; nil: none
	Unmet   []string      // conditions of the rule that the replicas do not meet
	Creator string        // principal to whose share of the cluster's logs it counts; empty: none
}

// ReplicaStatus is one replica of a log.
type ReplicaStatus struct {
	Replica uint64
	Node    string
	Role    ReplicaRole
	End     record.Offset // end of its stored records, as the leader knows
	Lag     int64         // records behind the leader
	State   ReplicaState
	Problem string // empty, or why it does not serve
	// Outgoing means that the replica voted before the current change of voters, and is needed
	// until that has committed.
	Outgoing bool
}

// ReplicaRole says whether a replica counts for a majority.
type ReplicaRole string

const (
	Voter   ReplicaRole = "voter"
	Learner ReplicaRole = "learner" // catches up and does not count yet
	Leaving ReplicaRole = "leaving" // on its way out
	Missing ReplicaRole = "missing" // the log wants it, and there is no node for it
	// ReadReplica is a replica that never counts. If it is leaving, its Problem says so.
	ReadReplica ReplicaRole = "read-replica"
)

// ReplicaState is the progress of a replica with its leader.
type ReplicaState string

const (
	Leads       ReplicaState = "leader"
	Replicating ReplicaState = "replicating"
	Probing     ReplicaState = "probing"  // the leader determines its position
	Snapshot    ReplicaState = "snapshot" // it needs less than there is: start and sessions are on their way
	Unreachable ReplicaState = "unreachable"
	Repairing   ReplicaState = "repairing" // its files are damaged; missing entries are fetched from others
	Lost        ReplicaState = "lost"      // its files cannot be trusted: a new replica replaces it
	Unknown     ReplicaState = "unknown"   // the log has no leader, or the leader does not know of it
)
