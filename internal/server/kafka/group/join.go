package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Join is a member's wish to be in the next generation.
type Join struct {
	MemberID       string // empty: it has none yet
	Instance       string // empty: it is nobody in particular
	ClientID, Host string
	ProtocolType   string
	Protocols      []Protocol
	SessionMs      int64
	RebalanceMs    int64
	// Invite: a newcomer gets an id first and joins with it, so that one that
	// does not hear the answer leaves no member behind.
	Invite bool
	NewID  string // what it gets if it has none
}

// Joined is the answer to a Join.
type Joined struct {
	Err          error
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	MemberID     string
	Members      []Candidate // for the leader, which decides who gets what
}

// Candidate is a member as the leader sees it.
type Candidate struct {
	ID, Instance string
	Metadata     []byte
}

// Join takes a member into the next generation. done is called when that
// begins, or at once with a refusal.
func (g *Group) Join(now int64, j Join, done func(Joined)) {
	m, err := g.admit(now, &j)
	if err != nil {
		id := j.MemberID
		if err == kerr.MemberIDRequired {
			id = j.NewID
		}
		done(Joined{Err: err, MemberID: id})
		return
	}
	known := m != nil && m.id == j.MemberID && j.MemberID != ""
	same := m != nil && m.same(j.Protocols)
	switch {
	case m == nil:
		m = g.add(&j)
	case !known:
		// Another process has taken over for an instance.
		m.answerJoin(Joined{Err: kerr.FencedInstanceID, MemberID: m.id})
		m.answerSync(Synced{Err: kerr.FencedInstanceID})
		if g.leader == m.id {
			g.leader = j.NewID
		}
		m.id = j.NewID
	}
	m.describe(&j)
	m.alive(now)
	if same && g.goesOn(m, known) {
		done(g.welcome(m))
		return
	}
	m.answerJoin(Joined{Err: kerr.RebalanceInProgress, MemberID: m.id})
	m.join = done
	switch g.state {
	case Empty:
		g.state, g.protocolType = Joining, j.ProtocolType
		g.latest = now + m.rebalanceMs
		g.deadline = min(now+InitialDelayMs, g.latest)
	case Joining:
		if g.latest != 0 {
			g.deadline = min(now+InitialDelayMs, g.latest)
		}
	default:
		g.rebalance(now)
	}
	g.settle(now)
}

// goesOn reports whether a member that joins with nothing new gets the
// generation as it is: its answer was lost, or its process was started anew. A
// leader that joins again wants to decide again.
func (g *Group) goesOn(m *member, known bool) bool {
	switch g.state {
	case Syncing:
		return known
	case Stable:
		return m.id != g.leader
	}
	return false
}

// admit finds the member that joins, nil for a new one, or refuses it.
func (g *Group) admit(now int64, j *Join) (*member, error) {
	if j.SessionMs < MinSessionMs || j.SessionMs > MaxSessionMs {
		return nil, kerr.InvalidSessionTimeout
	}
	if j.ProtocolType == "" || len(j.Protocols) == 0 ||
		g.state != Empty && g.protocolType != "" && g.protocolType != j.ProtocolType {
		return nil, kerr.InconsistentGroupProtocol
	}
	var m *member
	if j.MemberID != "" {
		_, invited := g.invited[j.MemberID]
		found, err := g.lookUp(j.MemberID, j.Instance)
		if err != nil && !(invited && err == kerr.UnknownMemberID) {
			return nil, err
		}
		m = found
		delete(g.invited, j.MemberID)
	} else {
		m = g.findInstance(j.Instance)
	}
	if !g.agrees(j, m) {
		return nil, kerr.InconsistentGroupProtocol
	}
	if m == nil && len(g.members)+len(g.invited) >= MaxMembers {
		return nil, kerr.GroupMaxSizeReached
	}
	if m == nil && j.MemberID == "" && j.Invite && j.Instance == "" {
		g.invited[j.NewID] = now + j.SessionMs
		return nil, kerr.MemberIDRequired
	}
	return m, nil
}

// agrees reports whether there is a protocol that all others know too.
func (g *Group) agrees(j *Join, but *member) bool {
	return slices.ContainsFunc(j.Protocols, func(p Protocol) bool {
		for _, m := range g.members {
			if m != but && !m.knows(p.Name) {
				return false
			}
		}
		return true
	})
}

func (m *member) knows(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

func (m *member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (g *Group) add(j *Join) *member {
	m := &member{id: j.MemberID}
	if m.id == "" {
		m.id = j.NewID
	}
	g.members = append(g.members, m)
	return m
}

func (m *member) describe(j *Join) {
	m.instance, m.clientID, m.host = j.Instance, j.ClientID, j.Host
	m.sessionMs, m.rebalanceMs = j.SessionMs, j.RebalanceMs
	if m.rebalanceMs <= 0 {
		m.rebalanceMs = m.sessionMs
	}
	m.rebalanceMs = min(m.rebalanceMs, MaxRebalanceMs)
	m.protocols = j.Protocols
	m.bytes = len(m.id) + j.bytes()
}

// bytes is about what a member takes in memory besides its id.
func (j *Join) bytes() int {
	n := bytesOfMember + len(j.Instance) + len(j.ClientID) + len(j.Host)
	for _, p := range j.Protocols {
		n += bytesOfProtocol + len(p.Name) + len(p.Metadata)
	}
	return n
}

// Grows reports whether the group takes more memory after a join than before.
func (g *Group) Grows(j *Join) bool {
	m := g.findInstance(j.Instance)
	if m == nil {
		m = g.find(j.MemberID)
	}
	return m == nil || len(m.id)+j.bytes() > m.bytes
}

// rebalance asks all members to join anew.
func (g *Group) rebalance(now int64) {
	for _, m := range g.members {
		if m.sync != nil {
			m.alive(now) // it could not beat while it waited
			m.answerSync(Synced{Err: kerr.RebalanceInProgress})
		}
	}
	g.state, g.latest = Joining, 0
	g.deadline = now
	for _, m := range g.members {
		g.deadline = max(g.deadline, now+m.rebalanceMs)
	}
}

// settle begins the next generation if all are here, or time is up.
func (g *Group) settle(now int64) {
	if g.state != Joining {
		return
	}
	here := len(g.invited) == 0 && g.latest == 0
	for _, m := range g.members {
		here = here && m.join != nil
	}
	if !here && now < g.deadline {
		return
	}
	// Who did not come is out, but for an instance: its process may be on its
	// way back, and keeps its place until its session ends.
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == "" {
			g.remove(m)
		}
	}
	if len(g.members) == 0 {
		g.vacate()
		return
	}
	g.begin(now)
}

// begin starts a generation with the members that are there.
func (g *Group) begin(now int64) {
	g.generation++
	g.state, g.latest = Syncing, 0
	g.protocol = g.choose()
	if l := g.find(g.leader); l == nil || l.join == nil {
		g.leader = g.members[0].id
		for _, m := range g.members {
			if m.join != nil {
				g.leader = m.id
				break
			}
		}
	}
	g.deadline = now
	for _, m := range g.members {
		g.deadline = max(g.deadline, now+m.rebalanceMs)
		m.synced = m.join == nil
		m.assignment = nil
	}
	for _, m := range g.members {
		if m.join != nil {
			m.alive(now)
			m.answerJoin(g.welcome(m))
		}
	}
}

// welcome tells a member of the generation.
func (g *Group) welcome(m *member) Joined {
	j := Joined{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader, MemberID: m.id,
	}
	if m.id == g.leader {
		for _, other := range g.members {
			j.Members = append(j.Members, Candidate{ID: other.id, Instance: other.instance, Metadata: other.metadata(g.protocol)})
		}
	}
	return j
}

// choose finds the protocol that most members like best among those that all
// know.
func (g *Group) choose() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if !slices.ContainsFunc(g.members, func(other *member) bool { return !other.knows(p.Name) }) {
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
