package cli

import (
	"archive/zip"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestABundleHasWhatOneWhoHelpsNeedsAndNothingSecret(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("a secret record\n", "append", "orders")
	path := filepath.Join(t.TempDir(), "bundle.zip")
	o := p.run(nil, "cluster", "bundle", "-o", path, "--http", "http://"+p.http+",http://127.0.0.1:1", "--json")
	require.Zero(t, o.code, o.err)
	var shown struct {
		File   string
		Errors []string
	}
	require.NoError(t, json.Unmarshal([]byte(o.out), &shown))
	require.Equal(t, path, shown.File)
	require.Len(t, shown.Errors, 4, "no goroutines without --pprof, and nothing of the node that is not there: %q", shown.Errors)

	archive, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer archive.Close()
	files := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret", f.Name)
		files[f.Name] = string(text)
	}
	node := "bundle/nodes/http-" + strings.ReplaceAll(p.http, ":", "-")
	require.Contains(t, files["bundle/version.json"], `"platform"`)
	require.Contains(t, files["bundle/cluster.json"], `"orders"`)
	require.Contains(t, files["bundle/logs.json"], `"orders"`)
	require.Contains(t, files[node+"/metrics.txt"], "strandline_")
	require.Contains(t, files, node+"/ready.txt")
	require.Contains(t, files["bundle/errors.txt"], "127.0.0.1-1/metrics.txt")
	require.Len(t, files, 6)

	require.Equal(t, terminal.ExitFailed, p.run(nil, "cluster", "bundle", "-o", path).code, "no file is written over")
	require.Equal(t, terminal.ExitUsage, p.run(nil, "cluster", "bundle", "--http", "127.0.0.1:7271").code)
}
