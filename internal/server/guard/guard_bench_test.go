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
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

// BenchmarkMayAppend is what the guard adds to an append: whether the caller may, and whether
// the session is its own.
func BenchmarkMayAppend(b *testing.B) {
	n, err := node.Open(settings.Options{DataDir: b.TempDir(), FormAlone: true, GRPCAddress: "self", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, n.Close(context.Background())) })
	g := New(n, Options{Careful: true})
	holder, refusal := g.Identify(identity.Principal{Cluster: "c", Kind: identity.User, Name: "alice"}, &net.TCPAddr{}, "")
	require.Nil(b, refusal)
	caller := verbs.Caller{By: holder}
	require.NoError(b, g.AddGrants(b.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/alice", On: access.Object{Kind: access.Log, Prefix: true}, Rights: access.Append}}))
	session := record.SessionID(7)
	for _, on := range []bool{false, true} {
		require.NoError(b, g.EnforceRights(b.Context(), verbs.Caller{}, on, "user/root"))
		b.Run(map[bool]string{false: "open", true: "enforced"}[on], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := caller
				if refusal := g.mayUse(&c, Append, "orders", session); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
