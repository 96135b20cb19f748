package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// State is the state of a group, by the name that Kafka's tools use.
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
	// MaxRebalanceMs is the longest time that a group waits for a silent member.
	MaxRebalanceMs = 60 * 60_000

	// InitialDelayMs is how long an empty group waits for more members after the first, so that
	// members that start together share one rebalance.
	InitialDelayMs = 300
)

// Group is one consumer group. It is not safe for concurrent use.
type Group struct {
	state        State
	generation   int32
	protocolType string
	protocol     string // chosen for this generation
	leader       string // member id
	roster
	// deadline ends Joining and Syncing.
	deadline int64
	// latest bounds the deadline of a first Joining, which every newcomer
	// moves; 0 in any other.
	latest int64
}

// New returns an empty group.
func New() *Group { return &Group{state: Empty, roster: roster{invited: map[string]int64{}}} }

// ProtocolType returns the protocol type of the members, or an empty string if there are none.
func (g *Group) ProtocolType() string {
	if len(g.members) == 0 {
		return ""
	}
	return g.protocolType
}

// Heartbeat records a heartbeat of a member. The error tells the member what to do.
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

// MayCommit decides whether a member may commit offsets. A client with generation -1, which says
// that it is not a member, may commit while the group has no members.
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

// Leave removes a member. A member with an instance id may be named by that alone.
func (g *Group) Leave(now int64, id, instance string) error {
	if m := g.findInstance(instance); m != nil && id == "" {
		id = m.id
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

// Evict removes the member with an id, or of an instance, or with "" all members and candidates,
// and returns the number of removed members. They may join again.
func (g *Group) Evict(now int64, name string) (evicted int) {
	if name == "" {
		clear(g.invited)
	}
	out := g.having(func(m *member) bool { return name == "" || m.id == name || m.instance == name })
	if g.removeAll(out) {
		g.changed(now)
	}
	g.settle(now)
	return len(out)
}

// Tick advances the time: it removes silent members, and ends waits whose deadlines have passed.
func (g *Group) Tick(now int64) {
	g.voidInvitations(now)
	if g.removeAll(g.having(func(m *member) bool { return m.join == nil && m.sync == nil && m.silentFrom <= now })) {
		g.changed(now)
	}
	g.settle(now)
	if g.state == Syncing && g.deadline <= now {
		g.removeAll(g.having(func(m *member) bool { return !m.synced }))
		g.changed(now)
		g.settle(now)
	}
}

// Close answers all waiting members with err, because another node coordinates the group now.
func (g *Group) Close(err error) {
	for _, m := range slices.Clone(g.members) {
		m.dismiss(err)
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
	g.drop(m)
	m.dismiss(kerr.UnknownMemberID)
	if g.leader == m.id {
		g.leader = ""
	}
}

// removeAll reports whether there were any.
func (g *Group) removeAll(some []*member) bool {
	for _, m := range some {
		g.remove(m)
	}
	return len(some) > 0
}

// vacate makes the group empty. The next members begin a new generation.
func (g *Group) vacate() {
	g.state, g.protocol, g.protocolType, g.leader, g.latest = Empty, "", "", "", 0
	g.generation++
}
