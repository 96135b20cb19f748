package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// Join is a member's request to be in the next generation.
type Join struct {
	MemberID       string // empty: it has none yet
	Instance       string // empty: none
	ClientID, Host string
	Principal      string // whose client it is; empty: not known
	ProtocolType   string
	Protocols      []Protocol
	SessionMs      int64
	RebalanceMs    int64
	// Invite gives a new member an id first, with which it joins, so that a client that does not
	// receive the answer leaves no member behind.
	Invite bool
	NewID  string // the member id to assign if it has none
}

// check refuses a request that no group accepts.
func (j *Join) check() error {
	switch {
	case j.SessionMs < MinSessionMs || j.SessionMs > MaxSessionMs:
		return kerr.InvalidSessionTimeout
	case j.ProtocolType == "" || len(j.Protocols) == 0:
		return kerr.InconsistentGroupProtocol
	}
	return nil
}

// Joined is the answer to a Join.
type Joined struct {
	Err          error
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	MemberID     string
	Members      []Candidate // for the leader, which assigns partitions
}

// Candidate is a member as the leader sees it.
type Candidate struct {
	ID, Instance string
	Metadata     []byte
}

// Join adds a member to the next generation. done is called when that begins, or at once with a
// refusal.
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
		m.dismiss(kerr.FencedInstanceID)
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

// goesOn reports whether a member that joins without changes gets the current generation: its
// answer was lost, or its process was restarted. A leader that joins again wants to assign again.
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
	if err := j.check(); err != nil {
		return nil, err
	}
	if g.state != Empty && g.protocolType != "" && g.protocolType != j.ProtocolType {
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

// rebalance asks all members to join anew.
func (g *Group) rebalance(now int64) {
	for _, m := range g.members {
		if m.sync != nil {
			m.alive(now) // it could not beat while it waited
			m.answerSync(Synced{Err: kerr.RebalanceInProgress})
		}
	}
	g.state, g.latest, g.deadline = Joining, 0, g.patience(now)
}

// settle begins the next generation if all are here, or time is up.
func (g *Group) settle(now int64) {
	if g.state != Joining {
		return
	}
	absent := g.having(func(m *member) bool { return m.join == nil })
	if here := len(g.invited) == 0 && g.latest == 0 && len(absent) == 0; !here && now < g.deadline {
		return
	}
	// Members that did not join are removed, except instances: the process of an instance may be
	// restarting, and the instance keeps its place until its session expires.
	g.removeAll(g.having(func(m *member) bool { return m.join == nil && m.instance == "" }))
	if len(g.members) == 0 {
		g.vacate()
		return
	}
	g.begin(now)
}

// begin starts a generation with the present members.
func (g *Group) begin(now int64) {
	g.generation++
	g.state, g.latest = Syncing, 0
	g.protocol = g.choose()
	if l := g.find(g.leader); l == nil || l.join == nil {
		g.leader = append(g.having(func(m *member) bool { return m.join != nil }), g.members[0])[0].id
	}
	g.deadline = g.patience(now)
	for _, m := range g.members {
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

// welcome returns the answer that describes the generation to a member.
func (g *Group) welcome(m *member) Joined {
	j := Joined{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader, MemberID: m.id,
	}
	if m.id == g.leader {
		j.Members = g.candidates(g.protocol)
	}
	return j
}
