package access

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func given(t *testing.T, all ...Grant) List {
	t.Helper()
	c, refusal := AddGrants(List{}, all)
	require.Nil(t, refusal)
	return List{}.With(&c)
}

func on(t *testing.T, text string) Object {
	t.Helper()
	o, err := ParseObject(text)
	require.NoError(t, err)
	require.Equal(t, text, o.String())
	return o
}

func TestWhatIsGrantedIsAllThereIs(t *testing.T) {
	r := Compile(given(t,
		Grant{Principal: "user/alice", On: on(t, "log/orders"), Rights: Append | Read},
		Grant{Principal: "user/alice", On: on(t, "log/audit-*"), Rights: Read},
		Grant{Principal: "user/bob", On: on(t, "log/*"), Rights: Trim},
		Grant{Principal: "user/carol", On: on(t, "cluster"), Rights: Observe | Create},
		Grant{Principal: "user/dora", On: on(t, "cluster"), Rights: Administer},
		Grant{Principal: "user/alice", On: on(t, "group/billing"), Rights: Read},
		Grant{Principal: Anybody, On: on(t, "log/news"), Rights: Read},
	))
	for _, c := range []struct {
		principal string
		on        Object
		want      Rights
	}{
		{"user/alice", OfLog("orders"), Append | Read | Observe},
		{"user/alice", OfLog("orders/3"), Append | Read | Observe},
		{"user/alice", OfLog("orders2"), None},
		{"user/alice", OfLog("audit-1"), Read | Observe},
		{"user/alice", OfLog("audit"), None},
		{"user/alice", OfCluster, None},
		{"user/alice", on(t, "group/billing"), Read | Observe},
		{"user/alice", OfLog("billing"), None},
		{"user/bob", OfLog("orders"), Trim | Observe},
		{"user/carol", OfLog("orders"), Observe | Create},
		{"user/carol", OfCluster, Observe | Create},
		{"user/dora", OfLog("orders"), All},
		{"user/eve", OfLog("orders"), None},
		{"user/eve", OfLog("news"), Read | Observe},
		{"user/alic", OfLog("orders"), None},
		{"node/a", OfCluster, All},
		{"", OfLog("news"), None},
		{"user/bob", OfLog("_catalog"), None},
		{"user/bob", OfLog("_offsets"), None},
		{"user/bob", OfLog("_offsets/0"), None},
		{"user/bob", OfLog("_strandline_next"), None},
		{"user/bob", OfLog("_schemas"), Trim | Observe}, // a name like any other
		{"user/carol", OfLog("_catalog"), None},
		{"user/dora", OfLog("_catalog"), All},
		{"node/a", OfLog("_catalog"), All},
	} {
		require.Equal(t, c.want, r.Of(c.principal, nil, c.on), "%s on %s", c.principal, c.on)
	}
}

func TestOnlyANodeThatIsAMemberHasRights(t *testing.T) {
	l := given(t, Grant{Principal: Anybody, On: on(t, "log/*"), Rights: Read}, Grant{Principal: "node/gone", On: OfCluster, Rights: Administer})
	r := Compile(l, "b", "a")
	require.Equal(t, []string{"a", "b"}, r.Members())
	for _, o := range []Object{OfCluster, OfLog("orders")} {
		require.Equal(t, All, r.Of("node/a", nil, o))
		require.Equal(t, All, r.Of("node/b", nil, o))
		for _, former := range []string{"node/gone", "node/", "node/ab"} {
			require.Equal(t, None, r.Of(former, nil, o), "%s on %s", former, o)
			require.False(t, r.HoldsAnywhere(former, nil, Log, Read))
		}
	}
	require.Equal(t, All, Compile(l).Of("node/gone", nil, OfCluster), "it is not known which nodes there are")
}

func TestAScopeLeavesSomeRightsAndGivesNone(t *testing.T) {
	r := Compile(given(t, Grant{Principal: "user/alice", On: on(t, "log/orders*"), Rights: Append | Read}, Grant{Principal: "user/root", On: OfCluster, Rights: Administer}))
	read := []Scope{{On: on(t, "log/*"), Rights: Read | Trim}}
	require.Equal(t, Read|Observe, r.Of("user/alice", read, OfLog("orders")))
	require.Equal(t, None, r.Of("user/alice", read, OfLog("audit")))
	require.Equal(t, Read|Trim|Observe, r.Of("user/root", read, OfLog("audit")))
	require.Equal(t, None, r.Of("user/root", read, OfCluster))
	require.Equal(t, None, r.Of("user/root", read, OfLog("_catalog")))
	require.True(t, r.HoldsAnywhere("user/alice", nil, Log, Append))
	require.False(t, r.HoldsAnywhere("user/alice", read, Log, Append))
	require.True(t, r.HoldsAnywhere("user/alice", []Scope{{On: on(t, "log/orders-1"), Rights: Append}}, Log, Append))
	require.False(t, r.HoldsAnywhere("user/eve", nil, Log, Append))
	require.False(t, r.HoldsAnywhere("", nil, Log, Append))
}

func TestWhatAPrincipalHoldsIsListed(t *testing.T) {
	r := Compile(given(t,
		Grant{Principal: "user/alice", On: on(t, "log/orders*"), Rights: Append | Read},
		Grant{Principal: "user/alice", On: on(t, "group/billing"), Rights: Read},
		Grant{Principal: Anybody, On: OfCluster, Rights: Observe},
		Grant{Principal: "user/bob", On: on(t, "log/*"), Rights: Trim}))
	require.Equal(t, []Scope{
		{On: OfCluster, Rights: Observe}, {On: on(t, "group/billing"), Rights: Read | Observe}, {On: on(t, "log/orders*"), Rights: Append | Read | Observe},
	}, r.Held("user/alice", nil))
	require.Equal(t, []Scope{{On: on(t, "log/orders-1"), Rights: Append | Observe}}, r.Held("user/alice", []Scope{{On: on(t, "log/orders-1"), Rights: Append | Trim}}))
	require.Equal(t, []Scope{{On: on(t, "log/*"), Rights: Observe}, {On: on(t, "log/orders*"), Rights: Read | Observe}}, r.Held("user/alice", []Scope{{On: on(t, "log/*"), Rights: Read}}), "a scope that is wider")
	require.Equal(t, []Scope{{On: OfCluster, Rights: Observe}}, r.Held("user/eve", nil))
	require.Empty(t, r.Held("", nil))
	require.Equal(t, []Scope{{On: OfCluster, Rights: All}}, r.Held("node/a", nil))
}

func TestRightsAreTakenAwayWhereTheyWereGranted(t *testing.T) {
	l := given(t, Grant{Principal: "user/alice", On: on(t, "log/orders"), Rights: Append | Read}, Grant{Principal: "user/alice", On: on(t, "log/*"), Rights: Read})
	_, refusal := RemoveGrants(l, []Grant{{Principal: "user/alice", On: on(t, "log/orders"), Rights: Trim}})
	require.Equal(t, record.Precondition, refusal.Reason)
	c, refusal := RemoveGrants(l, []Grant{{Principal: "user/alice", On: on(t, "log/orders"), Rights: Append | Read}})
	require.Nil(t, refusal)
	l = l.With(&c)
	require.Len(t, l.Grants, 1)
	require.Equal(t, Read|Observe, Compile(l).Of("user/alice", nil, OfLog("orders")))
}

func TestRightsAreNeverEnforcedWithoutAnAdministrator(t *testing.T) {
	_, refusal := Enforce(List{}, true, "")
	require.Equal(t, record.Precondition, refusal.Reason)
	c, refusal := Enforce(List{}, true, "user/root")
	require.Nil(t, refusal)
	l := List{}.With(&c)
	require.True(t, Compile(l).Enforced)
	_, refusal = RemoveGrants(l, []Grant{{Principal: "user/root", On: OfCluster, Rights: Administer}})
	require.Equal(t, record.Precondition, refusal.Reason)
	_, refusal = RemoveUser(l, "root")
	require.Equal(t, record.Precondition, refusal.Reason)
	c, refusal = Enforce(l, false, "")
	require.Nil(t, refusal)
	require.False(t, l.With(&c).Enforced)
	require.True(t, l.Enforced, "a list is not changed in place")
}

func TestARemovedUserLeavesNothingBehind(t *testing.T) {
	l := given(t, Grant{Principal: "user/alice", On: on(t, "log/*"), Rights: Read}, Grant{Principal: "user/alicia", On: on(t, "log/*"), Rights: Read})
	for _, c := range []Change{
		{Users: []User{{Name: "alice"}}},
		{Tokens: []Token{{ID: "1", Principal: "user/alice", Expires: 10}, {ID: "2", Principal: "user/alicia", Expires: 10}}},
	} {
		l = l.With(&c)
	}
	c, refusal := RemoveUser(l, "alice")
	require.Nil(t, refusal)
	l = l.With(&c)
	require.Empty(t, l.Users)
	require.Len(t, l.Tokens, 1)
	require.Len(t, l.Grants, 1)
	_, refusal = RemoveUser(l, "alice")
	require.Equal(t, record.Precondition, refusal.Reason)
}

func TestTokensExpireAndAreRevoked(t *testing.T) {
	c, refusal := AddToken(List{}, Token{ID: "1", Principal: "user/alice", Expires: 10}, 5)
	require.Nil(t, refusal)
	l := List{}.With(&c)
	_, ok := Compile(l).Token("1", 9)
	require.True(t, ok)
	_, ok = Compile(l).Token("1", 10)
	require.False(t, ok)
	c, refusal = AddToken(l, Token{ID: "2", Principal: "user/alice", Expires: 20}, 10)
	require.Nil(t, refusal)
	require.Equal(t, []string{"1"}, c.Revoke, "what has expired is forgotten")
	l = l.With(&c)
	c, refusal = RevokeToken(l, "2")
	require.Nil(t, refusal)
	_, ok = Compile(l.With(&c)).Token("2", 11)
	require.False(t, ok)
	_, refusal = RevokeToken(l, "3")
	require.NotNil(t, refusal)
	for _, principal := range []string{"*", "", "user/", "root", "user/a/b"} {
		_, refusal = AddToken(l, Token{ID: "4", Principal: principal, Expires: 20}, 1)
		require.NotNil(t, refusal, principal)
	}
}

func TestOnlyWhatMeansSomethingCanBeGranted(t *testing.T) {
	for _, g := range []Grant{
		{Principal: "user/alice", On: OfCluster, Rights: Append},
		{Principal: "user/alice", On: on(t, "log/orders"), Rights: Administer},
		{Principal: "user/alice", On: on(t, "group/billing"), Rights: Append},
		{Principal: "user/alice", On: on(t, "log/orders"), Rights: None},
		{Principal: "alice", On: on(t, "log/orders"), Rights: Read},
		{Principal: "user/" + strings.Repeat("a", maxName+1), On: on(t, "log/orders"), Rights: Read},
		{Principal: "user/alice", On: Object{Kind: "disk"}, Rights: Read},
		{Principal: "user/alice", On: Object{Kind: Log}, Rights: Read},
		{Principal: "user/alice", On: Object{Kind: Log, Name: strings.Repeat("a", MaxObjectName+1)}, Rights: Read},
	} {
		_, refusal := AddGrants(List{}, []Grant{g})
		require.NotNil(t, refusal, "%v", g)
	}
	for _, text := range []string{"", "cluster/", "log", "log/", "disk/a", "cluster*"} {
		_, err := ParseObject(text)
		require.Error(t, err, text)
	}
}

func TestAListSurvivesItsEncoding(t *testing.T) {
	l := given(t, Grant{Principal: "user/alice", On: on(t, "log/orders*"), Rights: Append | Read})
	c := Change{Tokens: []Token{{ID: "1", Principal: "user/alice", Scope: []Scope{{On: OfCluster, Rights: Observe}}}}, Users: []User{{Name: "alice", Verifiers: map[string]Verifier{"X": {Salt: []byte{1}}}}}}
	l = l.With(&c)
	text, err := json.Marshal(l)
	require.NoError(t, err)
	var again List
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, l, again)
}

// What can be parsed is written as it was read, and names no more than it says.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{"cluster", "log/orders", "log/audit-*", "group/*", "log/", "log/**"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseObject(text)
		if err == nil {
			require.Equal(t, text, o.String())
			require.NoError(t, o.Check())
		}
	})
}

func TestWhatAPrincipalHoldsIsWhatItHasThere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	object := func() Object {
		o := Object{Kind: []Kind{Log, Log, Group, Cluster}[random.IntN(4)]}
		if o.Kind == Cluster {
			return o
		}
		for range random.IntN(4) {
			o.Name += string("ab-"[random.IntN(3)])
		}
		o.Prefix = o.Name == "" || random.IntN(2) == 0
		return o
	}
	some := func(o Object) Rights {
		if rights := onKind[o.Kind] & Rights(random.Uint32()) &^ Administer; rights != None {
			return rights
		}
		return Observe
	}
	for range 3000 {
		var grants []Grant
		for range random.IntN(12) {
			on := object()
			grants = append(grants, Grant{Principal: []string{"user/alice", Anybody, "user/bob"}[random.IntN(3)], On: on, Rights: some(on)})
		}
		if random.IntN(20) == 0 {
			grants = append(grants, Grant{Principal: "user/alice", On: OfCluster, Rights: Administer})
		}
		var scope []Scope
		if random.IntN(2) == 0 {
			for range 1 + random.IntN(4) {
				on := object()
				scope = append(scope, Scope{On: on, Rights: some(on)})
			}
		}
		r := Compile(given(t, grants...))
		held := map[Object]Rights{}
		for _, s := range r.Held("user/alice", scope) {
			require.NotContains(t, held, s.On)
			held[s.On] = s.Rights
		}
		for _, kind := range []Kind{Log, Group} {
			anywhere := None
			for o, rights := range held {
				if o.Kind == kind || o.Kind == Cluster {
					anywhere |= rights
				}
			}
			for right := Rights(1); right <= All; right <<= 1 {
				require.Equal(t, anywhere&right != 0, r.HoldsAnywhere("user/alice", scope, kind, right), "%s on a %s: %v, scope %v", right, kind, grants, scope)
			}
		}
		on := []Object{OfCluster}
		for _, g := range grants {
			if g.Principal != "user/bob" {
				on = append(on, g.On)
			}
		}
		for _, s := range scope {
			on = append(on, s.On)
		}
		for _, o := range on {
			one := o
			if o.Prefix { // what it has on a name that no other object has
				one.Prefix, one.Name = false, o.Name+"~"
			}
			require.Equal(t, r.Of("user/alice", scope, one), held[o], "%s: %v, scope %v", o, grants, scope)
			if scope == nil {
				require.Equal(t, ofEach(grants, "user/alice", one), held[o], "%s: %v", one, grants)
			}
		}
	}
}

// ofEach returns the rights on an object that follow from the grants of a principal and of Anybody, one by one.
func ofEach(grants []Grant, principal string, on Object) (rights Rights) {
	for _, g := range grants {
		if g.Principal == principal || g.Principal == Anybody {
			rights |= g.rightsOn(on)
		}
	}
	return rights
}

// Streams are decided about with each change of the rules, and lists for each log.
func TestADecisionDoesNotLookAtEachGrant(t *testing.T) {
	cost := func(grants int) time.Duration {
		r := Compile(manyGrants(grants))
		least := time.Hour
		for range 20 {
			began := time.Now()
			for range 20 {
				require.Equal(t, None, r.Of("user/alice", nil, OfLog("other")))
				require.Equal(t, None, r.Of("user/alice", nil, OfLog("orders-0001-x")), "as long as the prefixes")
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := cost(10), cost(MaxGrants)
	require.Less(t, many, 20*few+time.Microsecond, "for %d times the grants", MaxGrants/10)
}

// manyGrants are grants of one principal, a third of them on prefixes.
func manyGrants(n int) List {
	l := List{Grants: map[string]Grant{}}
	for i := range n {
		g := Grant{Principal: "user/alice", On: Object{Kind: Log, Name: fmt.Sprintf("orders-%04d", i), Prefix: i%3 == 0}, Rights: Read}
		l.Grants[g.On.String()] = g
	}
	return l
}

func BenchmarkHeld(b *testing.B) {
	r := Compile(manyGrants(MaxGrants))
	for b.Loop() {
		if len(r.Held("user/alice", nil)) != MaxGrants {
			b.Fatal("some are missing")
		}
	}
}
