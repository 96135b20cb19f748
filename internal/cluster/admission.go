package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
	"strandline.dev/internal/unknown"
)

// A node becomes a member only if it is expected: an operator announced its name, or it presents
// a token that a member created. So a process that restarts under a new name each time leaves no
// members behind.

// JoinRequest is the request of a node to join.
type JoinRequest struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Nonce is chosen at random by the node and kept until it is a member. A request that repeats it
	// comes from a node that has not received the answer.
	Nonce string `json:"nonce"`
	// Token admits a node that was not announced; empty: it has none.
	Token string `json:"token,omitempty"`
	// Levels are the feature levels that the node supports.
	Levels Levels  `json:"levels,omitzero"`
	Labels []Label `json:"labels,omitempty"`
}

// JoinAnswer is everything that a node needs to start as a member.
type JoinAnswer struct {
	ClusterID      string   `json:"cluster_id"`
	NodeID         uint64   `json:"node_id"`
	CatalogReplica uint64   `json:"catalog_replica"`
	CatalogVoters  []uint64 `json:"catalog_voters"`
	Nodes          []Node   `json:"nodes"`
	// Fresh is set if this answer assigns CatalogReplica for the first time.
	Fresh bool `json:"fresh,omitempty"`
}

// Announced is a node name that may join. Times are in Unix milliseconds.
type Announced struct {
	Name    string          `json:"name"`
	Expires int64           `json:"expires_ms,omitempty"` // 0: never
	Unknown unknown.Members `json:"-"`
}

// Token is a join token: it admits nodes of any name until it expires. Only its hash is stored, so that a reader of
// the catalog cannot use it.
type Token struct {
	Hash     string          `json:"hash"`
	Expires  int64           `json:"expires_ms"`
	Reusable bool            `json:"reusable,omitempty"` // may be used by more than one node
	Unknown  unknown.Members `json:"-"`
}

// MaxExpected is the maximum number of announced names, and of tokens.
const MaxExpected = 1000

// HashToken returns the stored form of a token. A token is random and as long as a key, so it
// needs no salt and no slow hash.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Admit decides on a request at the time now, in Unix milliseconds. A node that repeats its
// request gets the previous answer, and nothing changes.
func Admit(s *State, q JoinRequest, now int64) (Node, Change, *record.Refusal) {
	known, member := s.Named(q.Name)
	token, brought := s.Tokens[HashToken(q.Token)]
	switch {
	case q.Name == "" || q.Address == "" || q.Nonce == "":
		return Node{}, Change{}, record.Refuse(record.Invalid, "the node that asks to join has no name, address or nonce")
	case member && known.Nonce == q.Nonce:
		return known, Change{}, nil
	case member:
		return Node{}, Change{}, NameTaken(known)
	case s.WasRemoved(q.Name):
		return Node{}, Change{}, nameRemoved(q.Name)
	}
	if refusal := RefuseLevels(q.Name, q.Levels, s.FeatureLevel()); refusal != nil {
		return Node{}, Change{}, refusal
	}
	if refusal := CheckLabels(q.Labels); refusal != nil {
		return Node{}, Change{}, refusal
	}
	// The labels are part of the same change: otherwise a log could be placed on the node against its rule, or a log
	// that is to be spread over the nodes would be refused until the labels arrive. So each member has its labels
	// from the first state on if the level allows labels, as it does in a cluster whose nodes all understand it
	// (FirstLevel). No other node decides on an older state, since only the newest state can refuse a change
	// (catalog.Changes).
	added := Node{ID: s.NextNode, Name: q.Name, Address: q.Address, Nonce: q.Nonce, Catalog: s.NextReplica, Labels: q.Labels}
	if allow(neededLevel(added), s.FeatureLevel()) != nil {
		added.Labels = nil
	}
	change := Change{Node: []Node{added}}
	switch a, announced := s.Announced[q.Name]; {
	case announced && !expired(a.Expires, now):
	case brought && !expired(token.Expires, now):
		if !token.Reusable {
			change.Revoke = []string{token.Hash}
		}
	case q.Token != "":
		return Node{}, Change{}, record.Refuse(record.Precondition,
			"the token of node %q is not valid: it has expired, was used by another node, or is of another cluster; make one with `strandline cluster token`", q.Name)
	default:
		return Node{}, Change{}, record.Refuse(record.Precondition,
			"node %q is not expected in this cluster: run `strandline cluster add-node %s %s`, or start it with --join-token", q.Name, q.Name, q.Address)
	}
	return added, change, nil
}

// Introduce adds a node to the catalog, or updates its address and labels; labels wait for the
// feature level that permits them. The first node also initializes the cluster: its peers are
// announced, rights are enforced if administrator is not empty, and the feature level is level,
// or higher if that is needed. The change is empty if nothing differs or the node was removed.
func Introduce(s *State, me Node, peers []string, level int, administrator string) (c Change, refusal *record.Refusal) {
	n, member := s.Nodes[me.ID]
	if len(s.Nodes) > 0 {
		level = s.FeatureLevel()
	}
	if allow(neededLevel(me), level) != nil {
		me.Labels = n.Labels
	}
	if _, gone := s.Gone[me.ID]; gone || member && n.Address == me.Address && n.Kafka == me.Kafka && slices.Equal(n.Labels, me.Labels) {
		return c, nil
	}
	if len(s.Nodes) == 0 {
		n.Votes = true
		if administrator != "" {
			rights, refusal := access.Enforce(s.Access, true, administrator)
			if refusal != nil {
				return c, refusal
			}
			c.Access = &rights
		}
		if level = max(level, c.needs()); level > firstLevel {
			c.Level = level
		}
		for _, name := range peers {
			c.Announce = append(c.Announce, Announced{Name: name})
		}
	}
	n.ID, n.Name, n.Catalog, n.Address, n.Kafka, n.Labels = me.ID, me.Name, me.Catalog, me.Address, me.Kafka, me.Labels
	c.Node = []Node{n}
	return c, nil
}

// WithNewLabels returns the labels of a node that was started a short while ago with other labels
// than before: the previous ones, and new keys. An operator who started it by mistake without a
// label, or with another value, can restart it before any replica moves.
func WithNewLabels(before, given []Label) []Label {
	if !slices.ContainsFunc(before, func(l Label) bool { return !slices.Contains(given, l) }) {
		return given
	}
	labels := slices.Clone(before)
	for _, l := range given {
		if !slices.ContainsFunc(before, func(b Label) bool { return b.Key() == l.Key() }) {
			labels = append(labels, l)
		}
	}
	return labels
}

// Announce permits a node of the given name to join. The change removes what has expired.
func Announce(s *State, a Announced, now int64) (Change, *record.Refusal) {
	known, member := s.Named(a.Name)
	switch {
	case member:
		return Change{}, NameTaken(known)
	case s.WasRemoved(a.Name):
		return Change{}, nameRemoved(a.Name)
	}
	change := forgetExpired(s, now)
	if len(s.Announced)-len(change.Withdraw) >= MaxExpected {
		return Change{}, record.Refuse(record.TooLarge, "%d announced nodes have not joined, the limit", len(s.Announced))
	}
	change.Announce = []Announced{a}
	return change, nil
}

// AddToken adds a join token. The change removes expired ones.
func AddToken(s *State, t Token, now int64) (Change, *record.Refusal) {
	change := forgetExpired(s, now)
	if len(s.Tokens)-len(change.Revoke) >= MaxExpected {
		return Change{}, record.Refuse(record.TooLarge, "%d tokens have not expired, the limit", len(s.Tokens))
	}
	change.Tokens = []Token{t}
	return change, nil
}

func forgetExpired(s *State, now int64) (c Change) {
	for name, a := range s.Announced {
		if expired(a.Expires, now) {
			c.Withdraw = append(c.Withdraw, name)
		}
	}
	for hash, t := range s.Tokens {
		if expired(t.Expires, now) {
			c.Revoke = append(c.Revoke, hash)
		}
	}
	slices.Sort(c.Withdraw)
	slices.Sort(c.Revoke)
	return c
}

func expired(at, now int64) bool { return at != 0 && at <= now }

// NameUsed reports whether a node has or had the name.
func (s *State) NameUsed(name string) bool {
	_, member := s.Named(name)
	return member || s.WasRemoved(name)
}

// WasRemoved reports whether a node of that name was removed. Names are not reused.
func (s *State) WasRemoved(name string) bool {
	for _, gone := range s.Gone {
		if gone == name {
			return true
		}
	}
	return false
}

// NameTaken returns the refusal of a second node of the same name.
func NameTaken(by Node) *record.Refusal {
	return record.Refuse(record.Precondition,
		"there is a node %q already, at %s. If its data is lost: start the new one with another --node-name and run `strandline cluster replace-node %s --with THAT-NAME`",
		by.Name, by.Address, by.Name)
}

func nameRemoved(name string) *record.Refusal {
	return record.Refuse(record.Precondition,
		"a node %q was removed from this cluster, and its name is not used again: choose another --node-name", name)
}
