package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestAClusterBecomesWhatAFileSaysOnce(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir(), "--kafka", "none")
	p.must("", "log", "create", "old")
	p.must("a\nb\n", "append", "old")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }

	write(`
logs:
  - {name: orders, retention: 7d}
  - {name: old}
users: [alice]
grants: [{principal: user/alice, object: log/orders, rights: [append, read]}]
`)
	const plan = "+ user alice\n+ log orders: retention 7d\n+ grant user/alice on log/orders: rights append,read\n"
	o := p.run(nil, "diff", "-f", file)
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Equal(t, plan, o.out)
	require.Contains(t, o.err, "the cluster differs from the file")
	require.Regexp(t, "^"+regexp.QuoteMeta(plan)+"the password of user alice, which is shown only now: [^ ]+\nmade 3 changes\n$", p.must("", "apply", "-f", file))
	require.Equal(t, "the cluster matches the file\n", p.must("", "apply", "-f", file))
	require.Equal(t, "the cluster matches the file\n", p.must("", "diff", "-f", file))

	write("logs: [{name: orders, retention: 1h}]")
	o = p.run(nil, "apply", "-f", file)
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Equal(t, "~ log orders: retention 7d -> 1h (loses records older than 1h)\n- log old (loses 2 records)\n", o.out)
	require.Contains(t, o.err, "nothing was done: records would be lost of log orders, log old; give --allow-delete to allow that")
	require.Contains(t, p.must("", "log", "list"), "old")
	var done struct{ Applied int }
	require.NoError(t, json.Unmarshal([]byte(p.must("", "apply", "-f", file, "--allow-delete", "--json")), &done))
	require.Equal(t, 2, done.Applied)
	require.NotContains(t, p.must("", "log", "list"), "old")

	write("logs: [{name: orders, retention: 1h}, {name: 'no name'}, {name: z}]")
	o = p.run(nil, "apply", "-f", file)
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "0 changes made; not made: + log no name; run apply again to continue")

	write("users: [alice, bob]\nlogs: [{name: orders, retention: 1h}, {name: 'no name'}, {name: z}]")
	o = p.run(nil, "apply", "-f", file, "--json")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.out, `"applied":1,"passwords":{"bob":"`, "a password is shown only once, whatever fails after")

	o = p.run(nil, "apply", "-f", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, p.must("", "apply", "--schema"), "json-schema.org")
}
