package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// State of a group, under the name that Kafka's tools know it by.
type State string

const (
	Empty   State = "Empty"
	Joining State = "PreparingRebalance"
	Syncing State = "CompletingRebalance"
	Stable  State = "Stable"
	Dead    State = "Dead" // there is no such group
)

// Limits of one group.
const (
	MaxMembers = 1_000

	MinSessionMs = 1_000
	MaxSessionMs = 30 * 60_000
	// MaxRebalanceMs bounds how long a group waits for a silent member.
	MaxRebalanceMs = 60 * 60_000

	// InitialDelayMs is how long an empty group waits for more members after
	// the first, so that those who start together share one rebalance.
	InitialDelayMs = 300
)

// Group is one consumer group. It has one owner and is not safe for concurrent
// use.
type Group struct {
	state        State
	generation   int32
	protocolType string
	protocol     string // chosen for this generation
	leader       string // member id
	members      []*member
	// invited are ids that were handed out to who must join with them, and when
	// each is void.
	invited map[string]int64
	// deadline ends Joining and Syncing.
	deadline int64
	// latest bounds the deadline of a first Joining, which every newcomer
	// moves; 0 in any other.
	latest int64
}

// member of a group.
type member struct {
	id, instance   string
	clientID, host string
	sessionMs      int64
	rebalanceMs    int64
	protocols      []Protocol
	assignment     []byte
	silentFrom     int64 // when the session ends unless there is a sign of life
	join           func(Joined)
	sync           func(Synced)
	synced         bool // has asked for its assignment in this generation
	bytes          int
}

// Protocol is a way of sharing work that a member knows, with what it tells the
// others for it. The best comes first.
type Protocol struct {
	Name     string
	Metadata []byte
}

// New makes an empty group.
func New() *Group { return &Group{state: Empty, invited: map[string]int64{}} }

// State of the group now.
func (g *Group) State() State { return g.state }

// ProtocolType of the members; empty where there are none.
func (g *Group) ProtocolType() string {
	if len(g.members) == 0 {
		return ""
	}
	return g.protocolType
}

// Vacant reports that nobody is in the group nor about to be.
func (g *Group) Vacant() bool { return len(g.members) == 0 && len(g.invited) == 0 }

// What a group takes in memory besides its texts, as BenchmarkMemory measures it.
const (
	bytesOfGroup    = 240
	bytesOfInvited  = 80
	bytesOfMember   = 230
	bytesOfProtocol = 48
)

// Bytes is about what the group takes in memory; nothing if it is vacant.
func (g *Group) Bytes() int {
	if g.Vacant() {
		return 0
	}
	n := bytesOfGroup + len(g.invited)*bytesOfInvited
	for _, m := range g.members {
		n += m.bytes + len(m.assignment)
	}
	return n
}

func (g *Group) find(id string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

func (g *Group) findInstance(instance string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return instance != "" && m.instance == instance })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

// lookUp finds the member that speaks. One with an instance id that another
// process has taken over gets an error that says so.
func (g *Group) lookUp(id, instance string) (*member, error) {
	if m := g.findInstance(instance); m != nil && m.id != id {
		return nil, kerr.FencedInstanceID
	}
	m := g.find(id)
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}

// Heartbeat is a sign of life. Its error is what the member has to do.
func (g *Group) Heartbeat(now int64, id, instance string, generation int32) error {
	m, err := g.lookUp(id, instance)
	switch {
	case err != nil:
		return err
	case generation != g.generation:
		return kerr.IllegalGeneration
	}
	m.alive(now)
	if g.state == Joining {
		return kerr.RebalanceInProgress
	}
	return nil
}

// MayCommit decides whether a member may commit offsets. Who is no member and
// says so, with generation -1, may as long as nobody else is.
func (g *Group) MayCommit(now int64, id, instance string, generation int32) error {
	if generation < 0 && id == "" {
		if len(g.members) > 0 {
			return kerr.UnknownMemberID
		}
		return nil
	}
	m, err := g.lookUp(id, instance)
	switch {
	case err != nil:
		return err
	case generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == Syncing:
		return kerr.RebalanceInProgress
	}
	m.alive(now)
	return nil
}

// Leave takes a member out. One with an instance id may be named by it alone.
func (g *Group) Leave(now int64, id, instance string) error {
	if id == "" && instance != "" {
		if m := g.findInstance(instance); m != nil {
			id = m.id
		}
	}
	if _, invited := g.invited[id]; invited {
		delete(g.invited, id)
		g.settle(now)
		return nil
	}
	m, err := g.lookUp(id, instance)
	if err != nil {
		return err
	}
	g.remove(m)
	g.changed(now)
	return nil
}

// Tick lets time pass: silent members fall out, and deadlines end.
func (g *Group) Tick(now int64) {
	for id, until := range g.invited {
		if until <= now {
			delete(g.invited, id)
		}
	}
	silent := 0
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.sync == nil && m.silentFrom <= now {
			g.remove(m)
			silent++
		}
	}
	if silent > 0 {
		g.changed(now)
	}
	g.settle(now)
	if g.state == Syncing && g.deadline <= now {
		for _, m := range slices.Clone(g.members) {
			if !m.synced {
				g.remove(m)
			}
		}
		g.changed(now)
		g.settle(now)
	}
}

// Close answers all who wait with err: the group is somebody else's now.
func (g *Group) Close(err error) {
	for _, m := range slices.Clone(g.members) {
		m.answerJoin(Joined{Err: err, MemberID: m.id})
		m.answerSync(Synced{Err: err})
	}
	*g = *New()
}

// changed begins a rebalance after members have come or gone.
func (g *Group) changed(now int64) {
	switch {
	case len(g.members) == 0 && g.state != Joining:
		g.vacate()
	case g.state == Stable || g.state == Syncing:
		g.rebalance(now)
	}
	g.settle(now)
}

func (g *Group) remove(m *member) {
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	m.answerJoin(Joined{Err: kerr.UnknownMemberID, MemberID: m.id})
	m.answerSync(Synced{Err: kerr.UnknownMemberID})
	if g.leader == m.id {
		g.leader = ""
	}
}

// vacate makes the group empty. The next members begin a new generation.
func (g *Group) vacate() {
	g.state, g.protocol, g.protocolType, g.leader, g.latest = Empty, "", "", "", 0
	g.generation++
}

func (m *member) alive(now int64) { m.silentFrom = now + m.sessionMs }

func (m *member) answerJoin(j Joined) {
	if m.join != nil {
		done := m.join
		m.join = nil
		done(j)
	}
}

func (m *member) answerSync(s Synced) {
	if m.sync != nil {
		done := m.sync
		m.sync = nil
		done(s)
	}
}
