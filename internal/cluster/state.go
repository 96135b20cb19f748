// Package cluster decides the membership of a cluster, the placement of replicas, and which
// changes are due, as pure functions of the catalog's state. It does no I/O, reads no clock and
// starts no goroutine. The catalog stores the values, the leader of a log adapts Raft's
// configuration to them, and nodes host the replicas that are placed on them. The simulator uses
// the same functions.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// State is the sum of the catalog's changes. Its methods are look-ups; none but Fold changes it.
// Decisions are functions in files named by their subject: admission, create, topic, due (voters,
// replicas), hosting, settle, renew, removal, memory.
type State struct {
	Logs      map[string]Log       `json:"logs"`                // by name
	Nodes     map[uint64]Node      `json:"nodes"`               // the members, by id
	Gone      map[uint64]string    `json:"gone"`                // names of nodes that were removed, by id
	Announced map[string]Announced `json:"announced,omitempty"` // names that may join
	Tokens    map[string]Token     `json:"tokens,omitempty"`    // join tokens by hash
	// Rules are the placement rules of logs without a rule of their own, by the prefix of their
	// names.
	Rules map[string]Rule `json:"rules,omitempty"`
	// Access is the users, tokens, grants and quotas.
	Access access.List `json:"access,omitzero"`
	// Spreading is set while replicas are being spread evenly over the nodes.
	Spreading bool `json:"spreading,omitempty"`
	// Stretch is the stretch of the catalog itself, see Stretcher; 0 means 1.
	Stretch int `json:"stretch,omitempty"`
	// Level is the feature level; 0 means the first, see FeatureLevel.
	Level       int              `json:"level,omitempty"`
	NextLog     uint64           `json:"next_log"`
	NextNode    uint64           `json:"next_node"`
	NextReplica uint64           `json:"next_replica"`
	NextSession record.SessionID `json:"next_session"`
	Unknown     unknown.Members  `json:"-"`
}

// The catalog is a log like any other.
const (
	CatalogID   = 0
	CatalogName = "_catalog"
)

// Node is a member of the cluster.
type Node struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Kafka   string `json:"kafka,omitempty"` // address of its Kafka port; empty: none
	// Nonce is the nonce of the JoinRequest.
	Nonce string `json:"nonce"`
	// Catalog is the node's replica of the catalog.
	Catalog uint64 `json:"catalog_replica"`
	// Votes is set if that replica votes.
	Votes bool `json:"votes,omitempty"`
	// Leaving is set while its replicas are being moved to other nodes.
	Leaving bool `json:"leaving,omitempty"`
	// Drained is set if it must lead nothing, since it will be stopped.
	Drained bool `json:"drained,omitempty" since:"2"`
	// Labels describe the location of the node, one for each key. They are never changed in place.
	Labels  []Label         `json:"labels,omitempty" since:"2"`
	Unknown unknown.Members `json:"-"`
}

// Log is one log as the catalog knows it.
type Log struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Config  Config `json:"config"`
	Created int64  `json:"created_ms"`
	// Request is the caller's name for the request that created the log, so that a repeated request
	// finds the log; empty: none.
	Request string `json:"request,omitempty"`
	// Creator is the principal to whose share of the cluster's logs it counts; empty: none.
	Creator string `json:"creator,omitempty" since:"4"`
	Placement
	// Reserved is used for memory logs only.
	Reserved
	// Stretch multiplies the times of elections and heartbeats, see Stretcher; 0 means 1.
	Stretch int             `json:"stretch,omitempty" since:"3"`
	Unknown unknown.Members `json:"-"`
}

// Config is the configuration of a log.
type Config struct {
	Durability     string `json:"durability"`
	RetentionMs    int64  `json:"retention_ms,omitempty"`
	RetentionBytes int64  `json:"retention_bytes,omitempty"`
	MaxBatchBytes  int    `json:"max_batch_bytes,omitempty"`
	Replicas       int    `json:"replicas,omitempty"`
	Fenced         bool   `json:"fenced,omitempty"`
	Topic          string `json:"topic,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
	// Revision rises with each configuration that the log gets; the first is 1. A recovery of the cluster raises it by more.
	Revision uint64 `json:"revision,omitempty"`
	// Settings are settings of another protocol, stored as they were set. They are never changed in
	// place.
	Settings map[string]string `json:"settings,omitempty"`
	// Rule is the log's own placement rule; if nil, see State.RuleOf.
	Rule    *Rule           `json:"rule,omitempty" since:"2"`
	Unknown unknown.Members `json:"-"`
}

// memoryDurability is the Config.Durability of a log of which nothing is stored on disk.
const memoryDurability = "memory"

// InMemory reports whether the log is kept only in the memory of its replicas.
func (c *Config) InMemory() bool { return c.Durability == memoryDurability }

// Change is one record of the catalog. All its parts take effect together. The tag since is the
// feature level that permits a part; parts without it are always permitted.
type Change struct {
	// ID lets the proposer recognize the change in the log.
	ID         string           `json:"change"`
	Put        []Log            `json:"put,omitempty"`               // logs that are new or different
	Delete     []string         `json:"delete,omitempty"`            // names of logs
	Node       []Node           `json:"node,omitempty"`              // nodes that are new or different
	Gone       []uint64         `json:"gone,omitempty"`              // nodes that left
	Announce   []Announced      `json:"announce,omitempty"`          // names that may join from now on
	Withdraw   []string         `json:"withdraw,omitempty"`          // names that may no longer join
	Tokens     []Token          `json:"tokens,omitempty"`            // new join tokens
	Revoke     []string         `json:"revoke,omitempty"`            // hashes of tokens that are no longer valid
	Access     *access.Change   `json:"access,omitempty" since:"2"`  // users, tokens, grants and quotas
	Rules      map[string]Rule  `json:"rules,omitempty" since:"2"`   // default rules that are new, different or, if empty, removed
	Spread     *bool            `json:"spread,omitempty"`            // new value of Spreading
	Sessions   record.SessionID `json:"sessions,omitempty"`          // all session ids below are taken
	Stretch    int              `json:"stretch,omitempty" since:"3"` // new stretch of the catalog
	Level      int              `json:"level,omitempty"`             // new feature level
	Checkpoint *State           `json:"checkpoint,omitempty"`        // replaces everything before
	// CheckpointFormat is the version of Checkpoint; 0 means 1.
	CheckpointFormat int             `json:"checkpoint_format,omitempty"`
	unknown          unknown.Members // parts that this version does not support
}

// Empty reports whether the change has no effect and need not be recorded.
func (c *Change) Empty() bool {
	return len(c.Put)+len(c.Delete)+len(c.Node)+len(c.Gone)+len(c.Announce)+len(c.Withdraw)+len(c.Tokens)+len(c.Revoke)+len(c.Rules) == 0 &&
		c.Sessions == 0 && c.Spread == nil && c.Stretch == 0 && c.Level == 0 && c.Checkpoint == nil && c.Access.Empty()
}

// NewState returns the state before the first change. The node that forms a cluster has the id 1,
// and so has its replica of the catalog.
func NewState() State {
	return State{
		Logs: map[string]Log{}, Nodes: map[uint64]Node{}, Gone: map[uint64]string{},
		Announced: map[string]Announced{}, Tokens: map[string]Token{}, Rules: map[string]Rule{},
		NextLog: 1, NextNode: 2, NextReplica: 2, NextSession: 1,
	}
}

// Fold applies a change to the state.
func (s *State) Fold(c Change) error {
	switch {
	case c.unknown != "":
		return fmt.Errorf("%s: unknown kind of change: %w", strings.Join(c.unknown.Names(), ", "), ErrNewer)
	case c.Empty():
		return errors.New("the change is empty")
	}
	if c.Checkpoint != nil {
		*s = c.Checkpoint.Clone()
	}
	for _, l := range c.Put {
		s.put(l)
	}
	for _, name := range c.Delete {
		delete(s.Logs, name)
	}
	for _, a := range c.Announce {
		s.Announced[a.Name] = a
	}
	for _, name := range c.Withdraw {
		delete(s.Announced, name)
	}
	for _, t := range c.Tokens {
		s.Tokens[t.Hash] = t
	}
	for _, hash := range c.Revoke {
		delete(s.Tokens, hash)
	}
	for _, n := range c.Node {
		s.Nodes[n.ID] = n
		delete(s.Announced, n.Name)
		s.NextNode = max(s.NextNode, n.ID+1)
		s.NextReplica = max(s.NextReplica, n.Catalog+1)
	}
	for _, id := range c.Gone {
		s.Gone[id] = s.Nodes[id].Name
		delete(s.Nodes, id)
	}
	setRules(s.Rules, c.Rules)
	s.Access = s.Access.With(c.Access)
	if c.Spread != nil {
		s.Spreading = *c.Spread
	}
	s.Stretch = cmp.Or(c.Stretch, s.Stretch)
	s.Level = max(s.Level, c.Level)
	s.NextSession = max(s.NextSession, c.Sessions)
	return nil
}

// MostAdded returns the most bytes that a change of so many bytes adds to a checkpoint, unless it is
// one: there the name of an object is once more, as its key.
func MostAdded(bytes int) int { return 2 * bytes }

func (s *State) put(l Log) {
	s.Logs[l.Name] = l
	s.NextLog = max(s.NextLog, l.ID+1)
	for _, r := range slices.Concat(l.Replicas, l.Readers) {
		s.NextReplica = max(s.NextReplica, r.ID+1)
	}
}

// Clone copies the maps. Their values are never changed in place.
func (s *State) Clone() State {
	fresh, out := NewState(), *s
	maps.Copy(fresh.Logs, s.Logs)
	maps.Copy(fresh.Nodes, s.Nodes)
	maps.Copy(fresh.Gone, s.Gone)
	maps.Copy(fresh.Announced, s.Announced)
	maps.Copy(fresh.Tokens, s.Tokens)
	maps.Copy(fresh.Rules, s.Rules)
	out.Logs, out.Nodes, out.Gone, out.Announced, out.Tokens, out.Rules = fresh.Logs, fresh.Nodes, fresh.Gone, fresh.Announced, fresh.Tokens, fresh.Rules
	return out
}

// Named returns the member with the given name.
func (s *State) Named(name string) (Node, bool) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Members returns all nodes, ordered by id.
func (s *State) Members() []Node {
	return slices.SortedFunc(maps.Values(s.Nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
}

// PlaceOf returns the log and the node of a replica of a log other than the catalog; 0, 0 if
// there is none with that id.
func (s *State) PlaceOf(replica uint64) (log, node uint64) {
	for _, l := range s.Logs {
		if node := l.NodeOf(replica); node != 0 {
			return l.ID, node
		}
	}
	return 0, 0
}

// Holds reports whether a node has, or may still have, a replica of a log.
func (s *State) Holds(node uint64) bool {
	for _, l := range s.Logs {
		if _, here := l.On(node); here {
			return true
		}
	}
	return false
}
