package group

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// room is a group with a clock and a record of the answers to each member.
type room struct {
	*testing.T
	*Group
	now    int64
	ids    int
	joined map[string]Joined
	synced map[string]Synced
}

func newRoom(t *testing.T) *room {
	return &room{T: t, Group: New(), joined: map[string]Joined{}, synced: map[string]Synced{}}
}

// wish is what members of these tests join with.
func wish(id string) Join {
	return Join{
		MemberID: id, ClientID: "client", ProtocolType: "consumer", SessionMs: 10_000, RebalanceMs: 30_000,
		Protocols: []Protocol{{"range", []byte(id + " range")}, {"sticky", []byte(id + " sticky")}},
	}
}

// join lets a member join; its answer will be under the given name.
func (r *room) join(name string, j Join) {
	r.ids++
	j.NewID = fmt.Sprintf("%s-%d", name, r.ids)
	delete(r.joined, name)
	r.Join(r.now, j, func(a Joined) { r.joined[name] = a })
}

// newcomer joins as Kafka's clients do: it is given an id and joins with it.
func (r *room) newcomer(name string) string {
	j := wish("")
	j.Invite = true
	r.join(name, j)
	require.Equal(r, kerr.MemberIDRequired, r.joined[name].Err)
	id := r.joined[name].MemberID
	r.join(name, wish(id))
	return id
}

func (r *room) sync(name, id string, shares map[string][]byte) {
	delete(r.synced, name)
	r.Sync(r.now, Sync{MemberID: id, Generation: r.generation, Protocol: r.protocol, Shares: shares}, func(a Synced) { r.synced[name] = a })
}

func (r *room) pass(ms int64) {
	r.now += ms
	r.Tick(r.now)
}

// pair is a stable group of two.
func pair(t *testing.T) (r *room, a, b string) {
	r = newRoom(t)
	a, b = r.newcomer("a"), r.newcomer("b")
	r.pass(InitialDelayMs)
	r.share(a, b)
	return r, a, b
}

func (r *room) share(a, b string) {
	r.sync("b", b, nil)
	require.NotContains(r, r.synced, "b", "it waits for the leader")
	r.sync("a", a, map[string][]byte{a: []byte("1"), b: []byte("2")})
	require.Equal(r, Stable, r.state)
	require.Equal(r, "1", string(r.synced["a"].Share))
	require.Equal(r, "2", string(r.synced["b"].Share))
}

func TestMembersThatStartTogetherShareOneGeneration(t *testing.T) {
	r := newRoom(t)
	a := r.newcomer("a")
	r.pass(InitialDelayMs / 2)
	b := r.newcomer("b")
	require.Empty(t, r.joined)
	require.Equal(t, Joining, r.state)
	r.pass(InitialDelayMs)
	require.Equal(t, Syncing, r.state)
	require.EqualValues(t, 1, r.joined["a"].Generation)
	require.EqualValues(t, 1, r.joined["b"].Generation)
	require.Equal(t, a, r.joined["b"].Leader)
	require.Equal(t, "range", r.joined["b"].Protocol)
	require.Empty(t, r.joined["b"].Members, "the leader alone decides")
	require.Equal(t, []Candidate{{ID: a, Metadata: []byte(a + " range")}, {ID: b, Metadata: []byte(b + " range")}}, r.joined["a"].Members)
	r.share(a, b)
	require.NoError(t, r.Heartbeat(r.now, a, "", 1))
	require.NoError(t, r.MayCommit(r.now, b, "", 1))
}

func TestANewcomerMakesAllJoinAnew(t *testing.T) {
	r, a, b := pair(t)
	r.newcomer("c")
	require.Equal(t, kerr.RebalanceInProgress, r.Heartbeat(r.now, a, "", 1))
	require.NoError(t, r.MayCommit(r.now, a, "", 1), "what was read so far may be committed first")
	r.join("a", wish(a))
	require.Empty(t, r.joined["b"].Err)
	require.Equal(t, Joining, r.state)
	r.join("b", wish(b))
	require.Equal(t, Syncing, r.state)
	require.Len(t, r.joined["a"].Members, 3)
	require.EqualValues(t, 2, r.joined["c"].Generation)
	require.Equal(t, kerr.IllegalGeneration, r.Heartbeat(r.now, a, "", 1))
	require.Equal(t, kerr.RebalanceInProgress, r.MayCommit(r.now, a, "", 2))
}

func TestWhoDoesNotComeAnewIsLeftBehind(t *testing.T) {
	r, a, b := pair(t)
	c := r.newcomer("c")
	r.join("b", wish(b))
	for range 29 {
		r.pass(1000)
		_ = r.Heartbeat(r.now, a, "", 1) // alive, but it does not join
	}
	require.Equal(t, Joining, r.state)
	r.pass(1000)
	require.Equal(t, Syncing, r.state)
	require.Equal(t, kerr.UnknownMemberID, r.Heartbeat(r.now, a, "", 2))
	require.Equal(t, b, r.joined["c"].Leader, "the eldest of those left leads")
	require.Len(t, r.joined["b"].Members, 2)
	r.sync("c", c, nil)
	r.sync("b", b, map[string][]byte{c: []byte("all")})
	require.Equal(t, "all", string(r.synced["c"].Share))
	require.Empty(t, r.synced["b"].Share)
}

func TestASilentMemberFallsOut(t *testing.T) {
	r, a, b := pair(t)
	r.pass(9_000)
	require.NoError(t, r.Heartbeat(r.now, a, "", 1))
	r.pass(2_000)
	require.Equal(t, kerr.UnknownMemberID, r.Heartbeat(r.now, b, "", 1))
	require.Equal(t, kerr.RebalanceInProgress, r.Heartbeat(r.now, a, "", 1))
	r.join("a", wish(a))
	require.Len(t, r.joined["a"].Members, 1)
	r.pass(60_000)
	require.Equal(t, Empty, r.state)
	require.True(t, r.Vacant())
}

func TestAMemberThatLeavesIsNotWaitedFor(t *testing.T) {
	r, a, b := pair(t)
	require.NoError(t, r.Leave(r.now, b, ""))
	require.Equal(t, kerr.UnknownMemberID, r.Leave(r.now, b, ""))
	r.join("a", wish(a))
	require.EqualValues(t, 2, r.joined["a"].Generation)
	require.NoError(t, r.Leave(r.now, a, ""))
	require.Equal(t, Empty, r.state)
	require.NoError(t, r.MayCommit(r.now, "", "", -1), "an empty group takes offsets from anybody")
}

func TestALeaderThatDoesNotAssignLosesItsPlace(t *testing.T) {
	r := newRoom(t)
	a, b := r.newcomer("a"), r.newcomer("b")
	r.pass(InitialDelayMs)
	r.sync("b", b, nil)
	for range 31 {
		r.pass(1000)
		_ = r.Heartbeat(r.now, a, "", 1)
	}
	require.Equal(t, kerr.RebalanceInProgress, r.synced["b"].Err)
	r.join("b", wish(b))
	require.Equal(t, b, r.joined["b"].Leader)
}

func TestAnAnswerThatWasLostIsGivenAgain(t *testing.T) {
	r, a, b := pair(t)
	r.join("b", wish(b))
	require.Equal(t, Stable, r.state, "nothing new: the generation goes on")
	require.EqualValues(t, 1, r.joined["b"].Generation)
	r.sync("b", b, nil)
	require.Equal(t, "2", string(r.synced["b"].Share))
	r.join("a", wish(a))
	require.Equal(t, Joining, r.state, "a leader joins again to decide again")
}

func TestAnInstanceThatIsStartedAnewTakesItsPlaceBack(t *testing.T) {
	r := newRoom(t)
	static := func(name, id string) {
		j := wish(id)
		j.Instance = name
		j.Protocols = []Protocol{{"range", []byte(name)}}
		r.join(name, j)
	}
	static("x", "")
	static("y", "")
	r.pass(InitialDelayMs)
	x, y := r.joined["x"].MemberID, r.joined["y"].MemberID
	r.sync("y", y, nil)
	r.sync("x", x, map[string][]byte{y: []byte("share")})
	static("y", "")
	require.Equal(t, Stable, r.state, "no rebalance")
	anew := r.joined["y"].MemberID
	require.NotEqual(t, y, anew)
	require.Equal(t, kerr.FencedInstanceID, r.Heartbeat(r.now, y, "y", 1), "the process before gets the error")
	r.sync("y", anew, nil)
	require.Equal(t, "share", string(r.synced["y"].Share))
	require.NoError(t, r.Leave(r.now, "", "y"))
}

func TestAnInstanceKeepsItsPlaceWhileItIsAway(t *testing.T) {
	r := newRoom(t)
	j := wish("")
	j.Instance = "x"
	j.SessionMs = 60_000
	r.join("x", j)
	r.pass(InitialDelayMs)
	x := r.joined["x"].MemberID
	r.sync("x", x, nil)
	r.newcomer("b")
	r.pass(30_000) // x does not come
	require.Equal(t, Syncing, r.state)
	require.Len(t, r.Describe().Members, 2)
	require.NotEqual(t, x, r.joined["b"].Leader)
	r.pass(60_000)
	require.Empty(t, r.findInstance("x"))
}

func TestWhoCannotBeTakenGetsAnError(t *testing.T) {
	r, _, _ := pair(t)
	for name, c := range map[string]struct {
		change func(*Join)
		err    error
	}{
		"session":  {func(j *Join) { j.SessionMs = 1 }, kerr.InvalidSessionTimeout},
		"kind":     {func(j *Join) { j.ProtocolType = "connect" }, kerr.InconsistentGroupProtocol},
		"protocol": {func(j *Join) { j.Protocols = []Protocol{{Name: "other"}} }, kerr.InconsistentGroupProtocol},
		"nothing":  {func(j *Join) { j.Protocols = nil }, kerr.InconsistentGroupProtocol},
		"unknown":  {func(j *Join) { j.MemberID = "nobody" }, kerr.UnknownMemberID},
	} {
		j := wish("")
		c.change(&j)
		r.join(name, j)
		require.Equal(t, c.err, r.joined[name].Err, name)
	}
	require.Equal(t, Stable, r.state)
	require.Equal(t, kerr.UnknownMemberID, r.MayCommit(r.now, "", "", -1), "the group is its members'")
}

func TestAGroupIsFullAtItsLimit(t *testing.T) {
	r := newRoom(t)
	for i := range MaxMembers {
		r.join(fmt.Sprint(i), wish(""))
	}
	r.join("last", wish(""))
	require.Equal(t, kerr.GroupMaxSizeReached, r.joined["last"].Err)
}

func TestAnInvitationThatIsNotTakenUpIsVoid(t *testing.T) {
	r := newRoom(t)
	j := wish("")
	j.Invite = true
	r.join("a", j)
	require.False(t, r.Vacant())
	r.pass(10_000)
	require.True(t, r.Vacant())
	r.join("a", wish(r.joined["a"].MemberID))
	require.Equal(t, kerr.UnknownMemberID, r.joined["a"].Err)
}

func TestClosingAnswersAllWhoWait(t *testing.T) {
	r, _, b := pair(t)
	r.newcomer("c")
	r.join("b", wish(b))
	r.Close(kerr.NotCoordinator)
	require.Equal(t, kerr.NotCoordinator, r.joined["b"].Err)
	require.Equal(t, kerr.NotCoordinator, r.joined["c"].Err)
	require.True(t, r.Vacant())
}

func TestThePreferredProtocolThatAllKnowIsChosen(t *testing.T) {
	r := newRoom(t)
	for name, protocols := range map[string][]string{"a": {"sticky", "range"}, "b": {"own", "sticky", "range"}, "c": {"range", "sticky"}} {
		j := wish("")
		j.Protocols = nil
		for _, p := range protocols {
			j.Protocols = append(j.Protocols, Protocol{Name: p})
		}
		r.join(name, j)
	}
	r.pass(InitialDelayMs)
	require.Equal(t, "sticky", r.joined["a"].Protocol)
}
