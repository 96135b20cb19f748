package cluster

import (
	"slices"

	"strandline.dev/internal/unknown"
)

// Replica is one incarnation of a log's data. Its id is never used again.
type Replica struct {
	ID   uint64 `json:"id"`
	Node uint64 `json:"node"`
	// New: it has not been a voter yet.
	New bool `json:"new,omitempty"`
	// Lost: what it held is gone, its votes too.
	Lost bool `json:"lost,omitempty"`
	// Reader: it is a read replica, which never votes.
	Reader  bool            `json:"reader,omitempty"`
	Unknown unknown.Members `json:"-"`
}

// Placement is where the replicas of one log are to be. Its methods change
// nothing that it shares with others.
type Placement struct {
	// Founders are the replicas that the log began with, as voters. All
	// replicas start from the state that names them.
	Founders []uint64 `json:"founders"`
	// Replicas are those that the log should have; its leader brings Raft's
	// configuration there. The first is to lead a new log.
	Replicas []Replica `json:"replicas"`
	// Readers are the read replicas: learners for ever. They count nowhere where Replicas do.
	Readers []Replica `json:"readers,omitempty" since:"3"`
	// Leaving are replicas and read replicas that Raft's configuration may still hold.
	Leaving []Replica `json:"leaving,omitempty"`
}

// All are the replicas of all kinds, those leaving too.
func (p *Placement) All() []Replica { return slices.Concat(p.Replicas, p.Readers, p.Leaving) }

// On returns the replica on a node: one the log should have, or one leaving. It never
// returns a lost one: the node of that must not create it again when its replacement
// leaves too.
func (p *Placement) On(node uint64) (Replica, bool) {
	return p.find(func(r Replica) bool { return r.Node == node && !r.Lost })
}

// NodeOf is the node of a replica that the log should have or that leaves it;
// 0: neither.
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

// Wanted are the ids of the replicas that the log should have: those that are to vote, and the
// read replicas.
func (p *Placement) Wanted() (voters, learners []uint64) { return idsOf(p.Replicas), idsOf(p.Readers) }

func idsOf(replicas []Replica) []uint64 {
	ids := make([]uint64, len(replicas))
	for i, r := range replicas {
		ids[i] = r.ID
	}
	return ids
}

// Voters are the ids of those that Raft's configuration holds as voters, except
// that a change which is under way may have got further.
func (p *Placement) Voters() (ids []uint64) {
	for _, r := range slices.Concat(p.Replicas, p.Leaving) {
		if !r.New && !r.Reader {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Settled: the log has the replicas that it should have. A read replica need not have caught
// up.
func (p *Placement) Settled() bool {
	isNew := func(r Replica) bool { return r.New }
	return len(p.Leaving) == 0 && !slices.ContainsFunc(p.Replicas, isNew) && !slices.ContainsFunc(p.Readers, isNew)
}

// Same reports whether both have the same replicas and the same leaving ones.
func (p *Placement) Same(other *Placement) bool {
	return slices.Equal(p.Replicas, other.Replicas) && slices.Equal(p.Readers, other.Readers) && slices.Equal(p.Leaving, other.Leaving)
}

// Settle is what follows once Raft's configuration is exactly the replicas that
// the log should have.
func (p *Placement) Settle() {
	p.Leaving = nil
	p.Replicas, p.Readers = slices.Clone(p.Replicas), slices.Clone(p.Readers)
	for _, list := range [][]Replica{p.Replicas, p.Readers} {
		for i := range list {
			list[i].New = false
		}
	}
}

// Move puts the replica of a node on another one, which gets a new replica with
// an id that was never used. It reports false, and does nothing, if there is
// nothing to move; a node that holds one already never gets a second, so the
// caller asks On before.
func (p *Placement) Move(from, to, id uint64) bool {
	list, at := p.listed(func(r Replica) bool { return r.Node == from })
	if list == nil {
		return false
	}
	p.replace(list, at, Replica{ID: id, Node: to}, false)
	return true
}

// Add puts a replica, or a read replica, on one more node, which has none, with an id that
// was never used.
func (p *Placement) Add(node, id uint64, reader bool) {
	list := &p.Replicas
	if reader {
		list = &p.Readers
	}
	*list = append(slices.Clone(*list), Replica{ID: id, Node: node, New: true, Reader: reader})
}

// Remove takes the replica away that a node should have. It reports false, and does
// nothing, if it should have none.
func (p *Placement) Remove(node uint64) bool {
	list, at := p.listed(func(r Replica) bool { return r.Node == node })
	if list == nil {
		return false
	}
	p.Leaving = append(slices.Clone(p.Leaving), (*list)[at])
	*list = slices.Delete(slices.Clone(*list), at, at+1)
	return true
}

// listed finds a replica that the log should have; nil: there is none.
func (p *Placement) listed(is func(Replica) bool) (list *[]Replica, at int) {
	for _, list := range []*[]Replica{&p.Replicas, &p.Readers} {
		if at := slices.IndexFunc(*list, is); at >= 0 {
			return list, at
		}
	}
	return nil, 0
}

// Renew replaces a replica that has lost what it held by a new one on the same
// node, which has an id that was never used. It reports whether id was taken.
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

// Survives reports whether a majority of Raft's voters still know what they stored
// and voted for. Voters are those replicas that are not new, and those leaving.
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

// replace puts a replica in the place of another. Raft may still hold that one,
// so it leaves; unless it is gone before it was a voter, when nobody waits for it.
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
