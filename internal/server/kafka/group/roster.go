package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// roster is the list of members and candidates of a group.
type roster struct {
	members []*member
	// invited has the ids assigned to clients that must join with them, and when each expires.
	invited map[string]int64
}

// Vacant reports whether the group has neither members nor candidates.
func (r *roster) Vacant() bool { return len(r.members) == 0 && len(r.invited) == 0 }

// The memory of a group besides its strings, as measured by BenchmarkMemory.
const (
	bytesOfGroup    = 240
	bytesOfInvited  = 80
	bytesOfMember   = 230
	bytesOfProtocol = 48
)

// Bytes returns the approximate memory of the group in bytes; 0 if it is vacant.
func (r *roster) Bytes() int {
	if r.Vacant() {
		return 0
	}
	n := bytesOfGroup + len(r.invited)*bytesOfInvited
	for _, m := range r.members {
		n += m.bytes + len(m.assignment)
	}
	return n
}

// Held adds the memory of each principal's members to the sum of that principal.
func (r *roster) Held(sums map[string]int) {
	for _, m := range r.members {
		sums[m.principal] += m.bytes + len(m.assignment)
	}
}

// Grows returns the number of bytes of memory by which a join enlarges the group.
func (r *roster) Grows(j *Join) int {
	m := r.findInstance(j.Instance)
	if m == nil {
		m = r.find(j.MemberID)
	}
	if m == nil {
		return len(j.NewID) + j.bytes()
	}
	return max(0, len(m.id)+j.bytes()-m.bytes)
}

func (r *roster) find(id string) *member {
	i := slices.IndexFunc(r.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return r.members[i]
}

func (r *roster) findInstance(instance string) *member {
	i := slices.IndexFunc(r.members, func(m *member) bool { return instance != "" && m.instance == instance })
	if i < 0 {
		return nil
	}
	return r.members[i]
}

// lookUp finds the member of a request. If another process has taken over its instance id, the
// error says so.
func (r *roster) lookUp(id, instance string) (*member, error) {
	if m := r.findInstance(instance); m != nil && m.id != id {
		return nil, kerr.FencedInstanceID
	}
	m := r.find(id)
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}

func (r *roster) add(j *Join) *member {
	m := &member{id: j.MemberID}
	if m.id == "" {
		m.id = j.NewID
	}
	r.members = append(r.members, m)
	return m
}

func (r *roster) drop(m *member) {
	r.members = slices.DeleteFunc(r.members, func(other *member) bool { return other == m })
}

// voidInvitations forgets ids with which no member joined in time.
func (r *roster) voidInvitations(now int64) {
	for id, until := range r.invited {
		if until <= now {
			delete(r.invited, id)
		}
	}
}

// having are the members that a condition is true of.
func (r *roster) having(is func(*member) bool) []*member {
	return slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return !is(m) })
}

// patience returns the time until which members may take for the next step of a rebalance that
// begins now.
func (r *roster) patience(now int64) int64 {
	latest := now
	for _, m := range r.members {
		latest = max(latest, now+m.rebalanceMs)
	}
	return latest
}

// agrees reports whether there is a protocol that all others know too.
func (r *roster) agrees(j *Join, but *member) bool {
	return slices.ContainsFunc(j.Protocols, func(p Protocol) bool {
		for _, m := range r.members {
			if m != but && !m.knows(p.Name) {
				return false
			}
		}
		return true
	})
}

// choose finds the protocol that most members like best among those that all
// know.
func (r *roster) choose() string {
	votes := map[string]int{}
	for _, m := range r.members {
		for _, p := range m.protocols {
			if !slices.ContainsFunc(r.members, func(other *member) bool { return !other.knows(p.Name) }) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for name, n := range votes {
		if n > votes[best] || n == votes[best] && name < best {
			best = name
		}
	}
	return best
}

// candidates are the members as their leader sees them.
func (r *roster) candidates(protocol string) []Candidate {
	var all []Candidate
	for _, m := range r.members {
		all = append(all, Candidate{ID: m.id, Instance: m.instance, Metadata: m.metadata(protocol)})
	}
	return all
}
