package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestHoldsAreSetListedAndReleased(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("a\nb\nc\n", "append", "orders")
	require.Equal(t, "hold backup keeps log orders from offset 1 on; the log ends at 3\n",
		p.must("", "log", "hold", "set", "orders", "backup", "--from", "1", "--pointer", "s3://1", "--owner", "ops", "--lease", "12h", "--max-bytes", "1GiB", "--max-age", "7d"))
	require.Equal(t, `{"log":"orders","hold":"all","offset":0,"end_offset":3}`+"\n", p.must("", "log", "hold", "set", "orders", "all", "--from-start", "--json"))
	p.must("", "log", "hold", "set", "orders", "bell\a", "--from-end")

	o := p.run(nil, "log", "trim", "orders", "--before", "2")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `hold "all" keeps all records from offset 0`)
	require.Contains(t, o.err, "log hold list orders")
	require.Equal(t, "hold all of log orders is released\n", p.must("", "log", "hold", "release", "orders", "all"))
	p.must("", "log", "trim", "orders", "--before", "1")

	list := p.must("", "log", "hold", "list", "orders")
	require.Regexp(t, `(?m)^backup +1 +\S+ of 1GiB for 7d +12h +ops +s3://1$`, list)
	require.Regexp(t, `(?m)^"bell\\a" +3 +\S+ +none +$`, list)
	require.NotContains(t, list, "all")
	require.Contains(t, p.must("", "log", "info", "orders"), "\nhold         backup, from 1 on", "aligned with what is above")
	require.Contains(t, p.must("", "log", "info", "orders", "--json"), `"pointer":"s3://1","pointer_b64":"czM6Ly8x"`)

	o = p.run(nil, "read", "orders", "--from", "0")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `to read on from the state that "s3://1" leads to: --from 1`)
	o = p.run(nil, "log", "hold", "release", "orders", "all")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "HOLD_NOT_FOUND")
}

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
