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

// State is what the catalog's changes add up to. Its methods look something up; all
// but Fold change nothing. What is decided on it are functions, by what they decide:
// admission, create, topic, due (voters, replicas), hosting, settle, renew, removal, memory.
type State struct {
	Logs      map[string]Log       `json:"logs"`                // by name
	Nodes     map[uint64]Node      `json:"nodes"`               // the members, by id
	Gone      map[uint64]string    `json:"gone"`                // names of nodes that were removed, by id
	Announced map[string]Announced `json:"announced,omitempty"` // by name, who may join
	Tokens    map[string]Token     `json:"tokens,omitempty"`    // by hash, with which others may
	// Rules say where the voters and leaders are of logs without a rule of their own, by the
	// prefix of their names.
	Rules map[string]Rule `json:"rules,omitempty"`
	// Access is who may do what.
	Access access.List `json:"access,omitzero"`
	// Spreading: replicas are being spread evenly over the nodes.
	Spreading bool `json:"spreading,omitempty"`
	// Stretch is that of the catalog itself, see Stretcher; 0 is 1.
	Stretch int `json:"stretch,omitempty"`
	// Level is the feature level; 0 is the first, see FeatureLevel.
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
	Kafka   string `json:"kafka,omitempty"` // of its Kafka port; empty: none
	// Nonce is that of the JoinRequest.
	Nonce string `json:"nonce"`
	// Catalog is the node's replica of the catalog.
	Catalog uint64 `json:"catalog_replica"`
	// Votes: that replica votes.
	Votes bool `json:"votes,omitempty"`
	// Leaving: its replicas are being moved elsewhere.
	Leaving bool `json:"leaving,omitempty"`
	// Drained: it is to lead nothing, as it will be stopped.
	Drained bool `json:"drained,omitempty" since:"2"`
	// Labels say where the node is; one for each key. Never changed in place.
	Labels  []Label         `json:"labels,omitempty" since:"2"`
	Unknown unknown.Members `json:"-"`
}

// Log is one log as the catalog knows it.
type Log struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Config  Config `json:"config"`
	Created int64  `json:"created_ms"`
	// Request is what the caller named the request that created the log, so that
	// it finds the log when it sends the request again; empty: nothing.
	Request string `json:"request,omitempty"`
	// Creator is the principal whose share of the cluster's logs it takes; empty: nobody's.
	Creator string `json:"creator,omitempty" since:"4"`
	Placement
	// Reserved is for memory logs only.
	Reserved
	// Stretch multiplies the times of elections and heartbeats, see Stretcher; 0 is 1.
	Stretch int             `json:"stretch,omitempty" since:"3"`
	Unknown unknown.Members `json:"-"`
}

// Config is how a log was configured.
type Config struct {
	Durability     string `json:"durability"`
	RetentionMs    int64  `json:"retention_ms,omitempty"`
	RetentionBytes int64  `json:"retention_bytes,omitempty"`
	MaxBatchBytes  int    `json:"max_batch_bytes,omitempty"`
	Replicas       int    `json:"replicas,omitempty"`
	Fenced         bool   `json:"fenced,omitempty"`
	Topic          string `json:"topic,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
	// Revision counts the configurations that the log has had; the first is 1.
	Revision uint64 `json:"revision,omitempty"`
	// Settings of another protocol, kept as they were set. Never changed in place.
	Settings map[string]string `json:"settings,omitempty"`
	// Rule is the log's own; nil: see State.RuleOf.
	Rule    *Rule           `json:"rule,omitempty" since:"2"`
	Unknown unknown.Members `json:"-"`
}

// memoryDurability is Config.Durability of a log that nothing on disk is kept of.
const memoryDurability = "memory"

// InMemory reports whether the log is kept in the memory of its replicas only.
func (c *Config) InMemory() bool { return c.Durability == memoryDurability }

// Change is one record of the catalog. All its parts take effect together. The tag since is
// the feature level that allows a part; without it, any does.
type Change struct {
	// ID lets the proposer recognize the change in the log.
	ID         string           `json:"change"`
	Put        []Log            `json:"put,omitempty"`               // logs that are new or different
	Delete     []string         `json:"delete,omitempty"`            // names of logs
	Node       []Node           `json:"node,omitempty"`              // nodes that are new or different
	Gone       []uint64         `json:"gone,omitempty"`              // nodes that left
	Announce   []Announced      `json:"announce,omitempty"`          // names that may join from now on
	Withdraw   []string         `json:"withdraw,omitempty"`          // names that may not any more
	Tokens     []Token          `json:"tokens,omitempty"`            // new ones
	Revoke     []string         `json:"revoke,omitempty"`            // hashes of tokens that are of no use any more
	Access     *access.Change   `json:"access,omitempty" since:"2"`  // who may do what
	Rules      map[string]Rule  `json:"rules,omitempty" since:"2"`   // default rules that are new, different or, if empty, gone
	Spread     *bool            `json:"spread,omitempty"`            // whether replicas are to be spread
	Sessions   record.SessionID `json:"sessions,omitempty"`          // all ids below are taken
	Stretch    int              `json:"stretch,omitempty" since:"3"` // that of the catalog from now on
	Level      int              `json:"level,omitempty"`             // the feature level from now on
	Checkpoint *State           `json:"checkpoint,omitempty"`        // everything so far
	// CheckpointFormat is the version of Checkpoint; 0 is 1.
	CheckpointFormat int             `json:"checkpoint_format,omitempty"`
	unknown          unknown.Members // what this version cannot do
}

// Empty reports whether the change has no effect and need not be recorded.
func (c *Change) Empty() bool {
	return len(c.Put)+len(c.Delete)+len(c.Node)+len(c.Gone)+len(c.Announce)+len(c.Withdraw)+len(c.Tokens)+len(c.Revoke)+len(c.Rules) == 0 &&
		c.Sessions == 0 && c.Spread == nil && c.Stretch == 0 && c.Level == 0 && c.Checkpoint == nil && c.Access.Empty()
}

// NewState is the state before the first change. The node that forms a cluster
// has id 1, and its replica of the catalog too.
func NewState() State {
	return State{
		Logs: map[string]Log{}, Nodes: map[uint64]Node{}, Gone: map[uint64]string{},
		Announced: map[string]Announced{}, Tokens: map[string]Token{}, Rules: map[string]Rule{},
		NextLog: 1, NextNode: 2, NextReplica: 2, NextSession: 1,
	}
}

// Fold adds a change to the state.
func (s *State) Fold(c Change) error {
	switch {
	case c.unknown != "":
		return fmt.Errorf("%s: no such kind of change is known: %w", strings.Join(c.unknown.Names(), ", "), ErrNewer)
	case c.Empty():
		return errors.New("it changes nothing")
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

func (s *State) put(l Log) {
	s.Logs[l.Name] = l
	s.NextLog = max(s.NextLog, l.ID+1)
	for _, r := range slices.Concat(l.Replicas, l.Readers) {
		s.NextReplica = max(s.NextReplica, r.ID+1)
	}
}

// Clone copies the maps; what they hold is never changed in place.
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

// Named finds a member by its name.
func (s *State) Named(name string) (Node, bool) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Members are all nodes, by id.
func (s *State) Members() []Node {
	return slices.SortedFunc(maps.Values(s.Nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
}

// PlaceOf returns the log and the node of a replica of a log other than the
// catalog; 0, 0 if there is none of that id.
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
