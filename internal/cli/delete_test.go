package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheEndOfALogSaysWhatWasGrantedOnItsName(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("", "grant", "add", "user/alice", "append,read", "log/orders")
	p.must("", "grant", "add", "user/alice", "read", "log/ord*")
	said := p.must("", "log", "delete", "orders")
	require.Contains(t, said, "deleted log orders\n")
	require.Contains(t, said, "grant remove user/alice append,read log/orders --server "+p.grpc+"\n")
	require.NotContains(t, said, "log/ord*")
	p.must("", "grant", "remove", "user/alice", "append,read", "log/orders")
	p.must("", "log", "create", "orders")
	require.Equal(t, "deleted log orders\n", p.must("", "log", "delete", "orders"))
}
