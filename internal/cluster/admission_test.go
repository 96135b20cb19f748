package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/record"
)

func TestOnlyExpectedNodesAreAdmitted(t *testing.T) {
	const now = 1000
	s := members(3)
	s.Gone[9] = "gone"
	require.NoError(t, s.Fold(Change{
		Announce: []Announced{{Name: "d", Expires: now + 1}, {Name: "late", Expires: now}, {Name: "peer"}},
		Tokens: []Token{
			{Hash: HashToken("once"), Expires: now + 1},
			{Hash: HashToken("many"), Expires: now + 1, Reusable: true},
			{Hash: HashToken("old"), Expires: now},
		},
	}))
	known := s.Nodes[3]
	known.Nonce = "n3"
	s.Nodes[3] = known
	for _, row := range []struct {
		what, name, nonce, token string
		refused                  string
		revoked                  []string
	}{
		{"announced", "d", "n", "", "", nil},
		{"announced without an end", "peer", "n", "", "", nil},
		{"announced too long ago", "late", "n", "", "is not expected", nil},
		{"any other", "x", "n", "", "is not expected", nil},
		{"with a token", "x", "n", "once", "", []string{HashToken("once")}},
		{"with a token for many", "x", "n", "many", "", nil},
		{"announced, with a token that it does not need", "d", "n", "once", "", nil},
		{"with one that has expired", "x", "n", "old", "token of node", nil},
		{"with one that nobody made", "x", "n", "wrong", "token of node", nil},
		{"with the hash of one", "x", "n", HashToken("many"), "token of node", nil},
		{"a member that asks again", "node3", "n3", "", "", nil},
		{"another of its name", "node3", "other", "many", "replace-node node3", nil},
		{"one that was removed", "gone", "n", "many", "was removed", nil},
		{"without a nonce", "d", "", "", "has no name", nil},
	} {
		node, change, refusal := Admit(s, JoinRequest{Name: row.name, Address: "a:1", Nonce: row.nonce, Token: row.token}, now)
		if row.refused != "" {
			require.ErrorContains(t, refusal, row.refused, row.what)
			require.False(t, refusal.Reason.Retryable(), row.what)
			require.True(t, change.Empty(), row.what)
			continue
		}
		require.Nil(t, refusal, row.what)
		require.Equal(t, row.revoked, change.Revoke, row.what)
		require.False(t, node.Votes, "%s: it votes when it has been seen alive", row.what)
		if row.name == "node3" {
			require.True(t, change.Empty(), row.what)
			require.Equal(t, uint64(3), node.ID, row.what)
		} else {
			require.Equal(t, []Node{node}, change.Node, row.what)
		}
	}
}

// A rule that keeps logs off a node holds from the moment that it is a member.
func TestANodeIsAdmittedWithItsLabels(t *testing.T) {
	s := members(3)
	require.NoError(t, s.Fold(Change{Announce: []Announced{{Name: "d"}}}))
	q := JoinRequest{Name: "d", Address: "a:1", Nonce: "n", Levels: Understood, Labels: []Label{"dc=syd", "rack=r1"}}
	node, _, refusal := Admit(s, q, 0)
	require.Nil(t, refusal)
	require.Empty(t, node.Labels, "the level does not allow them yet")

	require.NoError(t, s.Fold(Change{Level: 2}))
	node, change, refusal := Admit(s, q, 0)
	require.Nil(t, refusal)
	require.Equal(t, q.Labels, node.Labels)
	require.NoError(t, s.Fold(change))
	require.Equal(t, q.Labels, s.Nodes[node.ID].Labels)

	q.Name, q.Labels = "e", []Label{"dc"}
	_, _, refusal = Admit(s, q, 0)
	require.ErrorContains(t, refusal, "a label must be")
}

func TestATokenForOneNodeAdmitsOne(t *testing.T) {
	s := members(1)
	change, refusal := AddToken(s, Token{Hash: HashToken("once"), Expires: 10}, 1)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	first := JoinRequest{Name: "x", Address: "a:1", Nonce: "nx", Token: "once"}
	x, change, refusal := Admit(s, first, 2)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	_, _, refusal = Admit(s, JoinRequest{Name: "y", Address: "a:2", Nonce: "ny", Token: "once"}, 3)
	require.ErrorContains(t, refusal, "was used by another node")
	again, change, refusal := Admit(s, first, 20)
	require.Nil(t, refusal, "it has not heard the answer")
	require.True(t, change.Empty())
	require.Equal(t, x, again)
}

func TestANameIsExpectedOnce(t *testing.T) {
	s := members(1)
	change, refusal := Announce(s, Announced{Name: "d", Expires: 10}, 1)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	_, change, refusal = Admit(s, JoinRequest{Name: "d", Address: "a:1", Nonce: "n"}, 2)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	require.Empty(t, s.Announced)
	_, refusal = Announce(s, Announced{Name: "d"}, 3)
	require.ErrorContains(t, refusal, "there is a node \"d\" already")
}

func TestWhatHasExpiredIsForgotten(t *testing.T) {
	s := members(1)
	require.NoError(t, s.Fold(Change{
		Announce: []Announced{{Name: "old", Expires: 5}, {Name: "new", Expires: 20}},
		Tokens:   []Token{{Hash: "old", Expires: 5}, {Hash: "new", Expires: 20}},
	}))
	change, refusal := Announce(s, Announced{Name: "d", Expires: 20}, 10)
	require.Nil(t, refusal)
	require.NoError(t, s.Fold(change))
	require.Len(t, s.Announced, 2)
	require.NotContains(t, s.Announced, "old")
	require.NotContains(t, s.Tokens, "old")
	require.Contains(t, s.Tokens, "new")
}

func TestWhatIsExpectedIsBounded(t *testing.T) {
	s := members(1)
	for i := range MaxExpected {
		name := string(rune('A' + i)) // each another
		require.NoError(t, s.Fold(Change{Announce: []Announced{{Name: name}}, Tokens: []Token{{Hash: name, Expires: 10}}}))
	}
	_, refusal := Announce(s, Announced{Name: "one more"}, 1)
	require.Equal(t, record.TooLarge, refusal.Reason)
	_, refusal = AddToken(s, Token{Hash: "one more", Expires: 10}, 1)
	require.Equal(t, record.TooLarge, refusal.Reason)
	_, refusal = AddToken(s, Token{Hash: "one more", Expires: 20}, 10)
	require.Nil(t, refusal, "the others have expired")
}

func TestASecuredClusterBeginsWithAnAdministratorAndNobodyElse(t *testing.T) {
	for _, level := range []int{1, 2} { // what enforces rights is not left out for the sake of older nodes
		s := NewState()
		change, refusal := Introduce(&s, Node{ID: 1, Name: "a", Address: "a:1"}, []string{"b"}, level, "user/root")
		require.Nil(t, refusal)
		require.Nil(t, Allow(&s, change))
		require.NoError(t, s.Fold(change))
		require.Equal(t, 2, s.FeatureLevel())
		rules := access.Compile(s.Access)
		require.True(t, rules.Enforced)
		require.Equal(t, access.All, rules.Of("user/root", nil, access.OfCluster))
		require.Equal(t, access.None, rules.Of("user/alice", nil, access.OfCluster))
	}
	s := NewState()
	_, refusal := Introduce(&s, Node{ID: 1, Name: "a", Address: "a:1"}, nil, 2, access.Anybody)
	require.ErrorIs(t, refusal, &record.Refusal{Reason: record.Precondition}, "nobody in particular could administer it")
}

func TestLabelsThatANodeLostAreKeptForAWhile(t *testing.T) {
	before := []Label{"dc=fra", "rack=r1"}
	for _, c := range []struct{ given, kept []Label }{
		{nil, before},
		{[]Label{"dc=ams"}, before},
		{[]Label{"rack=r1", "dc=fra"}, []Label{"rack=r1", "dc=fra"}},
		{[]Label{"dc=fra", "disk=ssd"}, []Label{"dc=fra", "rack=r1", "disk=ssd"}},
		{[]Label{"dc=fra", "rack=r1", "disk=ssd"}, []Label{"dc=fra", "rack=r1", "disk=ssd"}},
	} {
		require.Equal(t, c.kept, WithNewLabels(before, c.given), "%v", c.given)
	}
	require.Equal(t, before, WithNewLabels(nil, before))
}
