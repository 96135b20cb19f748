package guard

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/node"
)

// enforcing is a guard of a node that enforces rights, with user/root as the administrator.
func enforcing(t *testing.T, grants ...access.Grant) *Guard {
	t.Helper()
	n, err := node.Open(node.Options{DataDir: t.TempDir(), FormAlone: true, GRPCAddress: "self", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	g := New(n, Options{Careful: true})
	require.NoError(t, g.AddGrants(t.Context(), node.Caller{}, grants))
	require.NoError(t, g.EnforceRights(t.Context(), node.Caller{}, true, "user/root"))
	return g
}

func userOf(t *testing.T, g *Guard, name string) node.Caller {
	t.Helper()
	h, refusal := g.Identify(identity.Principal{Cluster: "c", Kind: identity.User, Name: name}, &net.TCPAddr{}, "")
	require.Nil(t, refusal)
	return node.Caller{By: h}
}

// Whose share a new log or session takes is known by who asks for it; those who may administer the cluster take nobody's.
func TestWhatIsCreatedTakesTheShareOfWhoCreatesIt(t *testing.T) {
	g := enforcing(t, access.Grant{Principal: "user/bob", On: access.OfCluster, Rights: access.Create | access.Observe})
	for user, want := range map[string]string{"bob": "user/bob", "root": ""} {
		c := userOf(t, g, user)
		require.Nil(t, g.may(&c, "create-log", access.Create, access.OfLog("orders")))
		require.Equal(t, want, c.Creator, user)
		require.NotZero(t, c.Owner)
	}
	bob, root := userOf(t, g, "bob"), userOf(t, g, "root")
	require.Nil(t, g.may(&bob, "create-log", access.Create, access.OfLog("orders")))
	require.Nil(t, g.may(&root, "create-log", access.Create, access.OfLog("orders")))
	require.NotEqual(t, bob.Owner, root.Owner)
}
