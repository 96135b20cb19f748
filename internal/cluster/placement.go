package cluster

import (
	"slices"

	"strandline.dev/internal/unknown"
)

// Replica is one incarnation of a log's data. Its id is never reused.
type Replica struct {
	ID   uint64 `json:"id"`
	Node uint64 `json:"node"`
	// New is set until Raft's configuration contains the replica.
	New bool `json:"new,omitempty"`
	// Lost is set if its entries and votes are lost.
	Lost bool `json:"lost,omitempty"`
	// Reader is set for a read replica, which never votes.
	Reader  bool            `json:"reader,omitempty"`
	Unknown unknown.Members `json:"-"`
}

// Placement is where the replicas of one log should be. Its methods change nothing that it shares
// with other values.
type Placement struct {
	// Founders are the replicas with which the log started, as voters. All replicas start from a
	// state that names them.
	Founders []uint64 `json:"founders"`
	// Replicas are the voters that the log should have; its leader adapts Raft's configuration. The
	// first one leads a new log.
	Replicas []Replica `json:"replicas"`
	// Readers are the read replicas, which remain learners. They are not counted where Replicas are.
	Readers []Replica `json:"readers,omitempty" since:"3"`
	// Leaving are replicas and read replicas that Raft's configuration may still contain.
	Leaving []Replica `json:"leaving,omitempty"`
}

// All returns the replicas of all kinds, including those leaving.
func (p *Placement) All() []Replica { return slices.Concat(p.Replicas, p.Readers, p.Leaving) }

// On returns the replica on a node, be it leaving or not. It never returns a lost one: its node
// must not create it again when its replacement leaves, too.
func (p *Placement) On(node uint64) (Replica, bool) {
	return p.find(func(r Replica) bool { return r.Node == node && !r.Lost })
}

// NodeOf returns the node of a replica, be it leaving or not, or 0 if there is no such replica.
func (p *Placement) NodeOf(replica uint64) uint64 {
	r, _ := p.find(func(r Replica) bool { return r.ID == replica })
	return r.Node
}

func (p *Placement) find(is func(Replica) bool) (Replica, bool) {
	for _, list := range [][]Replica{p.Replicas, p.Readers, p.Leaving} {
		if at := slices.IndexFunc(list, is); at >= 0 {
			return list[at], true
		}
	}
	return Replica{}, false
}

// Wanted returns the ids of the replicas that the log should have: voters, and read replicas as
// learners.
func (p *Placement) Wanted() (voters, learners []uint64) { return idsOf(p.Replicas), idsOf(p.Readers) }

func idsOf(replicas []Replica) []uint64 {
	ids := make([]uint64, len(replicas))
	for i, r := range replicas {
		ids[i] = r.ID
	}
	return ids
}

// Voters returns the ids of the voters in Raft's configuration, except that a change in progress
// may be further ahead.
func (p *Placement) Voters() (ids []uint64) {
	for _, r := range slices.Concat(p.Replicas, p.Leaving) {
		if !r.New && !r.Reader {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Settled reports whether the log has the replicas that it should have. A read replica need not
// have caught up.
func (p *Placement) Settled() bool {
	isNew := func(r Replica) bool { return r.New }
	return len(p.Leaving) == 0 && !slices.ContainsFunc(p.Replicas, isNew) && !slices.ContainsFunc(p.Readers, isNew)
}

// Same reports whether both have the same replicas, read replicas and leaving ones.
func (p *Placement) Same(other *Placement) bool {
	return slices.Equal(p.Replicas, other.Replicas) && slices.Equal(p.Readers, other.Readers) && slices.Equal(p.Leaving, other.Leaving)
}

// Settle records that Raft's configuration is exactly the replicas that the log should have.
func (p *Placement) Settle() {
	p.Leaving = nil
	p.Replicas, p.Readers = slices.Clone(p.Replicas), slices.Clone(p.Readers)
	for _, list := range [][]Replica{p.Replicas, p.Readers} {
		for i := range list {
			list[i].New = false
		}
	}
}

// Move moves the replica of a node to another node, as a new replica with an unused id. It
// returns false and does nothing if there is nothing to move. A node must never get a second
// replica, so the caller checks On first.
func (p *Placement) Move(from, to, id uint64) bool {
	list, at := p.listed(func(r Replica) bool { return r.Node == from })
	if list == nil {
		return false
	}
	p.replace(list, at, Replica{ID: id, Node: to}, false)
	return true
}

// Add adds a replica, or a read replica, on a node that has none, with an unused id.
func (p *Placement) Add(node, id uint64, reader bool) {
	list := &p.Replicas
	if reader {
		list = &p.Readers
	}
	*list = append(slices.Clone(*list), Replica{ID: id, Node: node, New: true, Reader: reader})
}

// Remove removes the replica that a node should have. It returns false and does nothing if it
// should have none.
func (p *Placement) Remove(node uint64) bool {
	list, at := p.listed(func(r Replica) bool { return r.Node == node })
	if list == nil {
		return false
	}
	p.Leaving = append(slices.Clone(p.Leaving), (*list)[at])
	*list = slices.Delete(slices.Clone(*list), at, at+1)
	return true
}

// listed finds a replica that the log should have. list is nil if there is none.
func (p *Placement) listed(is func(Replica) bool) (list *[]Replica, at int) {
	for _, list := range []*[]Replica{&p.Replicas, &p.Readers} {
		if at := slices.IndexFunc(*list, is); at >= 0 {
			return list, at
		}
	}
	return nil, 0
}

// Renew replaces a replica that has lost its data with a new one on the same node, with an unused
// id. It reports whether id was used.
func (p *Placement) Renew(lost, id uint64) bool {
	p.Leaving = slices.Clone(p.Leaving)
	for i := range p.Leaving {
		p.Leaving[i].Lost = p.Leaving[i].Lost || p.Leaving[i].ID == lost
	}
	list, at := p.listed(func(r Replica) bool { return r.ID == lost })
	if list == nil {
		return false
	}
	p.replace(list, at, Replica{ID: id, Node: (*list)[at].Node}, true)
	return true
}

// Survives reports whether a majority of Raft's voters still have their entries and votes. The
// voters are the replicas that are not new, and those leaving.
func (p *Placement) Survives() bool {
	voters, lost := 0, 0
	for _, r := range p.Leaving {
		if r.Reader {
			continue
		}
		voters++
		if r.Lost {
			lost++
		}
	}
	for _, r := range p.Replicas {
		if !r.New {
			voters++
		}
	}
	return 2*(voters-lost) > voters
}

// replace replaces a replica with another one. Raft's configuration may still contain the old
// one, so it becomes a leaving one, unless it was lost before it was a voter: then no one waits
// for it.
func (p *Placement) replace(list *[]Replica, at int, by Replica, lost bool) {
	*list, p.Leaving = slices.Clone(*list), slices.Clone(p.Leaving)
	out := (*list)[at]
	if !lost || !out.New {
		out.Lost = out.Lost || lost
		p.Leaving = append(p.Leaving, out)
	}
	by.New, by.Reader = true, out.Reader
	(*list)[at] = by
}

// The leader of a log adapts the log's Raft configuration to the replicas in the catalog, one
// step at a time (core: Membership.Reshape). It checks every 200 ms, and whenever the placement
// or the term has changed; makes sure that the state is the newest; and takes a step towards
// Placement.Wanted (CatalogMembers for the catalog itself). When no step is left and the
// configuration is durable, it records Settle, or Retire for the catalog.

// Settle returns the change to record once Raft's configuration of a log is exactly the replicas
// that it should have. It is empty if the log was deleted, or its placement is not the one on
// which the caller acted: then the leader checks again.
func Settle(s *State, acted *Log) (c Change) {
	l, ok := s.Logs[acted.Name]
	if !ok || l.ID != acted.ID || !l.Same(&acted.Placement) || l.Settled() {
		return c
	}
	l.Settle()
	c.Put = []Log{l}
	return c
}

// Sender classifies the node that sent a message of a replica.
type Sender int

const (
	// Forged means that the replica is on another node, or was removed. The message must be ignored:
	// it could be a vote, or an acknowledgement.
	Forged Sender = iota
	// Placed means that the replica is on that node.
	Placed
	// Newer means that the catalog as known here does not contain the replica yet. For a node that
	// was away, this sender may be the only source of news.
	Newer
)

// SenderOf classifies the sender of a message of a replica, which came from the node from. next
// is the first replica id that the catalog, as known here, has not assigned: lower ids that are
// not placed were removed.
func (p *Placement) SenderOf(replica, from, next uint64) Sender {
	switch at := p.NodeOf(replica); {
	case at != 0 && at == from:
		return Placed
	case at == 0 && replica >= next:
		return Newer
	}
	return Forged
}
