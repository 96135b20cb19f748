package node

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
)

// catalogState is what the catalog's changes add up to.
type catalogState struct {
	Logs        map[string]catalogLog  `json:"logs"`  // by name
	Nodes       map[uint64]catalogNode `json:"nodes"` // by id
	Gone        map[uint64]string      `json:"gone"`  // names of nodes that were removed, by id
	NextLog     uint64                 `json:"next_log"`
	NextNode    uint64                 `json:"next_node"`
	NextReplica uint64                 `json:"next_replica"`
	NextSession record.SessionID       `json:"next_session"`
}

// catalogNode is one node of the cluster.
type catalogNode struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Kafka   string `json:"kafka,omitempty"` // of its Kafka door; empty: none
	// Token is what the node called itself by when it asked to be admitted: who
	// asks again with it has not heard the answer.
	Token   string `json:"token"`
	Catalog uint64 `json:"catalog_replica"`
	// Leaving: its replicas are being moved elsewhere.
	Leaving bool `json:"leaving,omitempty"`
}

// catalogLog is one log as the catalog knows it.
type catalogLog struct {
	ID      uint64        `json:"id"`
	Name    string        `json:"name"`
	Config  catalogConfig `json:"config"`
	Created int64         `json:"created_ms"`
	cluster.Placement
	// Lost and Ceiling belong to memory logs, see memory.go.
	Lost    record.Offset `json:"lost,omitempty"`
	Ceiling int64         `json:"ceiling,omitempty"`
}

type catalogReplica = cluster.Replica

// catalogConfig is Config as it is stored.
type catalogConfig struct {
	Durability     string `json:"durability"`
	RetentionMs    int64  `json:"retention_ms,omitempty"`
	RetentionBytes int64  `json:"retention_bytes,omitempty"`
	MaxBatchBytes  int    `json:"max_batch_bytes,omitempty"`
	Replicas       int    `json:"replicas,omitempty"`
	Topic          string `json:"topic,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
}

// catalogChange is one record of the catalog. All its parts take effect
// together.
type catalogChange struct {
	// ID tells whoever proposed it that it has landed.
	ID         string           `json:"change"`
	Put        []catalogLog     `json:"put,omitempty"`        // logs that are new or different
	Delete     []string         `json:"delete,omitempty"`     // names of logs
	Node       []catalogNode    `json:"node,omitempty"`       // nodes that are new or different
	Gone       []uint64         `json:"gone,omitempty"`       // nodes that left
	Sessions   record.SessionID `json:"sessions,omitempty"`   // all ids below are taken
	Checkpoint *catalogState    `json:"checkpoint,omitempty"` // everything so far
}

// nothing: the change has no effect and need not be recorded.
func (c *catalogChange) nothing() bool {
	return len(c.Put)+len(c.Delete)+len(c.Node)+len(c.Gone) == 0 && c.Sessions == 0 && c.Checkpoint == nil
}

var errUnknownChange = errors.New("unknown kind of change; a newer version wrote it")

func newCatalogState() catalogState {
	return catalogState{
		Logs: map[string]catalogLog{}, Nodes: map[uint64]catalogNode{}, Gone: map[uint64]string{},
		NextLog: 1, NextNode: 2, NextReplica: 2, NextSession: 1,
	}
}

func (s *catalogState) fold(c catalogChange) error {
	if c.nothing() {
		return errUnknownChange
	}
	if c.Checkpoint != nil {
		*s = c.Checkpoint.clone()
	}
	for _, l := range c.Put {
		s.Logs[l.Name] = l
		s.NextLog = max(s.NextLog, l.ID+1)
		for _, r := range l.Replicas {
			s.NextReplica = max(s.NextReplica, r.ID+1)
		}
	}
	for _, name := range c.Delete {
		delete(s.Logs, name)
	}
	for _, n := range c.Node {
		s.Nodes[n.ID] = n
		s.NextNode = max(s.NextNode, n.ID+1)
		s.NextReplica = max(s.NextReplica, n.Catalog+1)
	}
	for _, id := range c.Gone {
		s.Gone[id] = s.Nodes[id].Name
		delete(s.Nodes, id)
	}
	s.NextSession = max(s.NextSession, c.Sessions)
	return nil
}

// clone copies the maps; what they hold is never changed in place.
func (s *catalogState) clone() catalogState {
	fresh, out := newCatalogState(), *s
	maps.Copy(fresh.Logs, s.Logs)
	maps.Copy(fresh.Nodes, s.Nodes)
	maps.Copy(fresh.Gone, s.Gone)
	out.Logs, out.Nodes, out.Gone = fresh.Logs, fresh.Nodes, fresh.Gone
	return out
}

// node finds a node by its name.
func (s *catalogState) node(name string) (catalogNode, bool) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return catalogNode{}, false
}

// nodes are all, by id.
func (s *catalogState) nodes() []catalogNode {
	return slices.SortedFunc(maps.Values(s.Nodes), func(a, b catalogNode) int { return cmp.Compare(a.ID, b.ID) })
}

// catalogVoters is how many nodes at the most vote on the catalog: more would
// make each change slower and the cluster no safer. The others follow it.
const catalogVoters = 5

// catalogMembers are the replicas that the catalog itself should have. A node on
// its way out has no vote, but follows for as long as it holds a replica of any
// log: it may lead that log, and then it is the one to move it.
func (s *catalogState) catalogMembers() (voters, learners []uint64) {
	for _, n := range s.nodes() {
		switch {
		case n.Leaving && s.holds(n.ID):
			learners = append(learners, n.Catalog)
		case n.Leaving:
		case len(voters) < catalogVoters:
			voters = append(voters, n.Catalog)
		default:
			learners = append(learners, n.Catalog)
		}
	}
	return voters, learners
}

func encodeConfig(c Config) catalogConfig {
	return catalogConfig{
		Durability: c.Durability.String(), RetentionMs: c.Retention.Milliseconds(),
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Topic: c.Topic, Partition: c.Partition,
	}
}

func (c catalogConfig) decode() Config {
	out := Config{
		Retention:      time.Duration(c.RetentionMs) * time.Millisecond,
		RetentionBytes: c.RetentionBytes, MaxBatchBytes: c.MaxBatchBytes, Replicas: c.Replicas, Topic: c.Topic, Partition: c.Partition,
	}
	if c.Durability == Memory.String() {
		out.Durability = Memory
	}
	return out
}
