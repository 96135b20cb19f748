package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// commits is the state of all committed offsets, and of which groups have members, folded from the
// records of the log of offsets. It does no I/O.
type commits struct {
	groups map[string]*groupCommits
	sorted btree.Set[string] // their names
	count  int               // of all offsets in groups, and one for each group
	bytes  int               // approximate memory of groups
	// held is the part of count and bytes that counts for the groups of each principal.
	held map[string]heldCommits
}

// heldCommits is the share of one principal's groups in all committed offsets.
type heldCommits struct{ count, bytes int }

// groupCommits is the state of one group according to the log.
type groupCommits struct {
	offsets map[partition]committed
	// kind is the protocol type of the members that the group had last.
	kind string
	// members reports that the group has members, unless they disconnected together with their
	// coordinator.
	members bool
	// emptied is when the last member was found to have left, in unix ms; 0 if the group has
	// members or never had any.
	emptied int64
	bytes   int // approximate memory of offsets
	// principal is the principal that first committed offsets; empty: not known, or rights were not
	// enforced.
	principal string
}

// The memory of groups and offsets besides their strings, as measured by BenchmarkGroupMemory.
const (
	bytesOfGroup  = 640
	bytesOfOffset = 130
)

func bytesOf(p partition, c committed) int { return bytesOfOffset + len(p.topic) + len(c.Metadata) }

type partition struct {
	topic  string
	number int32
}

// committed is the committed position of a group in one partition.
type committed struct {
	Offset   int64  `json:"o"`
	Log      uint64 `json:"l,omitempty"` // id of the partition's log; 0: not known
	Epoch    int32  `json:"e"`           // of the leader; -1: not given
	Metadata string `json:"m,omitempty"`
	Time     int64  `json:"-"` // unix ms
}

// offsetChange is one record of the log.
type offsetChange struct {
	Group   string         `json:"group"`
	Time    int64          `json:"time"` // unix ms
	Commits []offsetCommit `json:"commits,omitempty"`
	Remove  []offsetOf     `json:"remove,omitempty"`
	Members *groupMembers  `json:"members,omitempty"`
	Delete  bool           `json:"delete,omitempty"` // By is the principal to whose share a group counts if it has none yet.
	// By is the principal whose share a group takes that has none yet.
	By string `json:"by,omitempty"`
	// Expire is Delete if the group has outlived its offsets by the time of the change.
	// It is decided where the change lies in the log, behind all commits before it.
	Expire bool `json:"expire,omitempty"`
}

type offsetCommit struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	committed
}

// offsetOf names a partition whose offset is forgotten. With a log, only an offset of
// that log is.
type offsetOf struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Log       uint64 `json:"l,omitempty"`
}

// groupMembers records whether a group has members from the time of the change on.
type groupMembers struct {
	Some bool   `json:"some,omitempty"`
	Kind string `json:"kind,omitempty"` // their protocol type
}

func newCommits() commits {
	return commits{groups: map[string]*groupCommits{}, held: map[string]heldCommits{}}
}

// size returns the number that a group adds to maxCommitted.
func (g *groupCommits) size() int {
	if g == nil {
		return 0
	}
	return 1 + len(g.offsets)
}

// memory returns the approximate memory of a group.
func (g *groupCommits) memory(name string) int {
	if g == nil {
		return 0
	}
	return bytesOfGroup + len(name) + len(g.kind) + len(g.principal) + g.bytes
}

func (g *groupCommits) set(p partition, c committed) {
	g.unset(p)
	g.offsets[p] = c
	g.bytes += bytesOf(p, c)
}

func (g *groupCommits) unset(p partition) {
	if c, found := g.offsets[p]; found {
		g.bytes -= bytesOf(p, c)
		delete(g.offsets, p)
	}
}

// principalOf returns the principal to whose share a change counts.
func (s *commits) principalOf(c *offsetChange) string {
	if g := s.groups[c.Group]; g != nil {
		return cmp.Or(g.principal, c.By)
	}
	return c.By
}

// more is how many offsets and groups there are more after a change, at the most.
func (s *commits) more(c *offsetChange) int {
	g, n := s.groups[c.Group], 0
	if g == nil {
		return len(c.Commits)
	}
	for _, one := range c.Commits {
		if _, found := g.offsets[partition{one.Topic, one.Partition}]; !found {
			n++
		}
	}
	return n
}

func (s *commits) fold(c *offsetChange) {
	g := s.groups[c.Group]
	if c.Expire && !g.outlived(c.Time) {
		return
	}
	s.add(c.Group, g, -1)
	if c.Delete || c.Expire {
		s.forget(c.Group)
		return
	}
	if g == nil {
		g = &groupCommits{offsets: map[partition]committed{}}
		s.groups[c.Group] = g
		s.sorted.Insert(c.Group)
	}
	g.principal = cmp.Or(g.principal, c.By)
	for _, one := range c.Commits {
		one.committed.Time = c.Time
		g.set(partition{one.Topic, one.Partition}, one.committed)
	}
	for _, one := range c.Remove {
		at := partition{one.Topic, one.Partition}
		if one.Log == 0 || one.Log == g.offsets[at].Log {
			g.unset(at)
		}
	}
	if m := c.Members; m != nil {
		g.members, g.kind, g.emptied = m.Some, m.Kind, 0
		if !m.Some {
			g.emptied = c.Time
		}
	}
	if len(g.offsets) == 0 && g.kind == "" {
		s.forget(c.Group) // nothing is left of it
		return
	}
	s.add(c.Group, g, 1)
}

func (s *commits) forget(group string) {
	delete(s.groups, group)
	s.sorted.Delete(group)
}

// names returns some of the groups that are known, in order, from a name on.
func (s *commits) names(from string, most int) []string {
	var some []string
	s.sorted.Ascend(from, func(name string) bool {
		some = append(some, name)
		return len(some) < most
	})
	return some
}

// add adds the share of a group to the counts, or subtracts it if sign is -1.
func (s *commits) add(name string, g *groupCommits, sign int) {
	if g == nil {
		return
	}
	count, bytes := sign*g.size(), sign*g.memory(name)
	s.count += count
	s.bytes += bytes
	if g.principal == "" {
		return
	}
	h := s.held[g.principal]
	if h.count, h.bytes = h.count+count, h.bytes+bytes; h == (heldCommits{}) {
		delete(s.held, g.principal)
	} else {
		s.held[g.principal] = h
	}
}

// whole is the state as changes.
func (s *commits) whole() []offsetChange {
	var changes []offsetChange
	for name, g := range s.groups {
		if g.kind != "" {
			changes = append(changes, offsetChange{Group: name, Time: g.emptied, Members: &groupMembers{Some: g.members, Kind: g.kind}})
		}
		byTime := map[int64][]offsetCommit{}
		for p, c := range g.offsets {
			byTime[c.Time] = append(byTime[c.Time], offsetCommit{Topic: p.topic, Partition: p.number, committed: c})
		}
		for t, all := range byTime {
			for some := range slices.Chunk(all, offsetRecord) {
				changes = append(changes, offsetChange{Group: name, Time: t, Commits: some, By: g.principal})
			}
		}
	}
	return changes
}

// outlived reports whether a group has had no members, and committed nothing, for
// OffsetsKept at a time in unix ms. A group that was never seen empty has not, however
// old its commits are, unless it has never had members at all.
func (g *groupCommits) outlived(now int64) bool {
	if g == nil || g.members {
		return false
	}
	newest := g.emptied
	for _, c := range g.offsets {
		newest = max(newest, c.Time)
	}
	return newest < now-OffsetsKept.Milliseconds()
}

// expired are the changes that forget the groups which have outlived their offsets.
func (s *commits) expired(now int64) []offsetChange {
	var changes []offsetChange
	for name, g := range s.groups {
		if g.outlived(now) {
			changes = append(changes, offsetChange{Group: name, Time: now, Expire: true})
		}
	}
	return changes
}

// orphaned are the changes that forget the offsets of logs that are gone.
func (s *commits) orphaned(now int64, gone map[offsetOf]bool) []offsetChange {
	var changes []offsetChange
	for name, g := range s.groups {
		var remove []offsetOf
		for p, c := range g.offsets {
			if one := (offsetOf{p.topic, p.number, c.Log}); gone[one] {
				remove = append(remove, one)
			}
		}
		for some := range slices.Chunk(remove, offsetRecord) {
			changes = append(changes, offsetChange{Group: name, Time: now, Remove: some})
		}
	}
	return changes
}

// logs are those that offsets are of, false for each.
func (s *commits) logs() map[offsetOf]bool {
	all := map[offsetOf]bool{}
	for _, g := range s.groups {
		for p, c := range g.offsets {
			all[offsetOf{p.topic, p.number, c.Log}] = false
		}
	}
	return all
}

// membership returns the changes to record so that the log knows which groups have members.
// inhabited has the groups with members here, with their protocol types. With allHeard, members
// that the log knows of and that are not here count as gone, because every live member had time to
// join again.
func (s *commits) membership(inhabited map[string]string, allHeard bool, now int64) []offsetChange {
	var changes []offsetChange
	for name, kind := range inhabited {
		if g := s.groups[name]; g == nil || !g.members || g.kind != kind {
			changes = append(changes, offsetChange{Group: name, Time: now, Members: &groupMembers{Some: true, Kind: kind}})
		}
	}
	if !allHeard {
		return changes
	}
	for name, g := range s.groups {
		_, here := inhabited[name]
		switch {
		case !g.members || here:
		case len(g.offsets) == 0:
			changes = append(changes, offsetChange{Group: name, Time: now, Delete: true}) // nothing is left of it
		default:
			changes = append(changes, offsetChange{Group: name, Time: now, Members: &groupMembers{Kind: g.kind}})
		}
	}
	return changes
}

// of returns a copy of the state of a group; nil if there is none.
func (s *commits) of(group string) *groupCommits {
	g := s.groups[group]
	if g == nil {
		return nil
	}
	found := *g
	found.offsets = maps.Clone(g.offsets)
	return &found
}
