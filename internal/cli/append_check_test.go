package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestAnAppendUnlessARecordMatchesIsDoneWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	n := startNode(t, filepath.Join(t.TempDir(), "node"))
	n.must("", "log", "create", "users")
	refused := func(in string, args ...string) string {
		t.Helper()
		o := n.run(strings.NewReader(in), args...)
		require.Equal(t, terminal.ExitRefused, o.code, o.err)
		return o.err
	}
	require.Contains(t, n.must("alice\n", "append", "users", "--key", "a@b.example", "--unless-key", "a@b.example"), "offset 0")
	text := refused("bob\n", "append", "users", "--key", "a@b.example", "--unless-key", "x", "--unless-key", "a@b.example")
	require.Contains(t, text, "CONFLICT")
	require.Contains(t, text, "offset 0")
	require.Contains(t, text, `"a@b.example"`)
	require.Contains(t, n.must("bob\n", "append", "users", "--key", "a@b.example", "--unless-key", "a@b.example", "--since", "1"), "offset 1")

	in := `{"key":"k/1","value":"one","headers":[{"key":"account","value":"7"}]}` + "\n" + `{"key":"k/2","value":"two"}` + "\n"
	require.Contains(t, n.must(in, "append", "users", "-i", "json", "--unless-prefix", "k/", "--unless-header", "account=7"), "offsets 2 to 3", "records do not match their own check")
	require.Contains(t, refused(in, "append", "users", "-i", "json", "--unless-prefix", "k/"), "offset 3")
	require.Contains(t, refused(in, "append", "users", "-i", "json", "--unless-header", "account=7"), "offset 2")
	require.Contains(t, refused("x\n", "append", "users", "--unless-key", "x", "--since", "5"), "OFFSET_BEYOND_END")
	require.Contains(t, n.must("", "append", "users", "--unless-key", "x"), "appended nothing")

	// What was trimmed is not looked for, unless the offset says so.
	n.must("", "log", "trim", "users", "--before", "2")
	require.Contains(t, n.must("carol\n", "append", "users", "--unless-key", "a@b.example"), "offset 4")
	require.Len(t, strings.Split(strings.TrimSpace(n.must("", "read", "users")), "\n"), 3)
}
