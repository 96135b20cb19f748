package guard

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
)

func TestWhatAClientAsksForTakesLittleMemory(t *testing.T) {
	rules := access.Compile(access.List{Enforced: true})
	h := newHolder("user/bob", new(net.TCPAddr))
	kept := func() (bytes int) {
		for o := range h.of {
			bytes += len(o.Name)
		}
		return bytes
	}
	for i := range 4 * maxDecisions {
		require.NotNil(t, h.on(rules, access.OfLog(fmt.Sprintf("%d%s", i, strings.Repeat("x", 32<<10))), now))
		h.on(rules, access.Object{Kind: access.Group, Name: fmt.Sprintf("%d%s", i, strings.Repeat("y", 200))}, now)
		require.LessOrEqual(t, kept(), maxNamed+access.MaxObjectName)
		require.Equal(t, kept(), h.named)
		require.LessOrEqual(t, len(h.of), maxDecisions)
	}
	require.Positive(t, kept())
}

func TestWhoAmISaysThatACallerHasMoreRightsThanItReturns(t *testing.T) {
	l := access.List{Enforced: true, Grants: map[string]access.Grant{"": {Principal: access.Anybody, On: access.OfCluster, Rights: access.Observe}}}
	grant := func(i int) {
		name := fmt.Sprintf("orders-%04d", i)
		l.Grants[name] = access.Grant{Principal: "user/bob", On: access.OfLog(name), Rights: access.Read}
	}
	for i := range maxHeld - 1 {
		grant(i)
	}
	h := newHolder("user/bob", new(net.TCPAddr))
	me := whoIs(h, access.Compile(l))
	require.Len(t, me.Rights, maxHeld)
	require.False(t, me.MoreRights)
	grant(maxHeld)
	me = whoIs(h, access.Compile(l))
	require.Len(t, me.Rights, maxHeld)
	require.True(t, me.MoreRights)
	require.Equal(t, access.OfCluster, me.Rights[0].On, "rights on the cluster are never left out")
}

// A stream lives longer than the token that it began with.
func TestWhatATokenShowsEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := access.Compile(access.List{
			Enforced: true,
			Tokens:   map[string]access.Token{"id": {ID: "id", Principal: "user/alice", Expires: now() + 1000}},
			Grants:   map[string]access.Grant{"": {Principal: "user/alice", On: access.OfLog("orders"), Rights: access.Observe}},
		})
		h := newHolder("user/alice", new(net.TCPAddr))
		h.Token = "id"
		sees := func() bool {
			return new(Guard).hasBy(rules, true, verbs.Caller{By: h}, access.Observe, access.OfLog("orders"))
		}
		require.True(t, sees())
		time.Sleep(time.Second)
		require.False(t, sees())
	})
}

func TestAllNodesSayTheSameOfAUserThatThereIsNot(t *testing.T) {
	one, two := &Guard{}, &Guard{}
	one.logins.secret[0], two.logins.secret[0] = 1, 2
	shared := access.Compile(access.List{Secret: []byte("of the cluster")})
	require.Equal(t, one.madeUp(shared, "salt", "eve"), two.madeUp(shared, "salt", "eve"))
	require.NotEqual(t, one.madeUp(shared, "salt", "eve"), one.madeUp(shared, "salt", "mallory"))
	other := access.Compile(access.List{Secret: []byte("of another one")})
	require.NotEqual(t, one.madeUp(shared, "salt", "eve"), one.madeUp(other, "salt", "eve"))
	require.NotEqual(t, one.madeUp(access.Compile(access.List{}), "salt", "eve"), two.madeUp(access.Compile(access.List{}), "salt", "eve"))
}
