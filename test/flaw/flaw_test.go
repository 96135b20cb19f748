package flaw

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are those of all flaws, as flaw.go has them.
func names(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile("flaw.go")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`Flaw = "([a-z-]+)"`).FindAllSubmatch(source, -1) {
		names = append(names, string(found[1]))
	}
	require.GreaterOrEqual(t, len(names), 12)
	return names
}

// traces are what a program contains that has flaws: their names, and the
// functions that only they run.
func traces(t *testing.T, buildFlags ...string) (found []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "strandline")
	out, err := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", path, "strandline.dev/cmd/strandline")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, one := range append(names(t), "test/flaw.", "brokenAck", "brokenArrival", "brokenTrim") {
		if bytes.Contains(program, []byte(one)) {
			found = append(found, one)
		}
	}
	return found
}
