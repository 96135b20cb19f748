package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

// The commands of docs/writers.md.
func TestAWriterIsElectedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders", "--fenced")
	require.Equal(t, "writer term 1 of log orders, from offset 0 on\n",
		p.must("", "writer", "acquire", "orders", "--name", "indexer-1", "--payload", "10.0.0.1:80", "--lease", "1h"))
	p.must("a\n", "append", "orders", "--writer-term", "1")
	p.must("", "writer", "keep", "orders", "1")
	o := p.run(nil, "writer", "acquire", "orders", "--name", "indexer-2")
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, `"indexer-1" has the writer lease of log orders, with term 1`)
	require.Equal(t, terminal.ExitRefused, p.run(nil, "writer", "release", "orders", "1", "--to", "indexer-2").code, "it does not wait")
	require.Equal(t, terminal.ExitUsage, p.run(nil, "writer", "keep", "orders", "x").code)
	p.must("", "writer", "release", "orders", "1")
	require.Contains(t, p.must("", "writer", "acquire", "orders", "--name", "indexer-2", "--json"), `"writer_term":2`)
	require.Equal(t, terminal.ExitRefused, p.run(nil, "writer", "keep", "orders", "1").code)

	// As with --name "$NODE" where NODE is not set: the term would be taken by force.
	for _, misuse := range [][]string{{"--name", ""}, {"--name", "", "--wait", "1m"}, {"--wait", "1m"}, {"--lease", "5s"}, {"--payload", "x"}} {
		o := p.run(nil, append([]string{"writer", "acquire", "orders"}, misuse...)...)
		require.Equal(t, terminal.ExitUsage, o.code, misuse)
		require.Contains(t, o.err, "without --name the term is taken at once")
	}
	p.must("", "writer", "keep", "orders", "2")
}
