package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notServed are franz-go's own tests that need what this server does not have.
// Those of share groups skip themselves when a cluster does not announce it.
var notServed = []string{
	"^TestTxnEtl$",                 // transactions
	"^Test848RegexBrokerResolves$", // the newer group protocol, which is refused
}

// All of franz-go's own tests, against a cluster, but for notServed.
func TestFranzSuite(t *testing.T) {
	onClusters(t, func(c *cluster) {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go")
		found, err := list.Output()
		require.NoError(c, err)
		dir := filepath.Join(c.TempDir(), "franz-go")
		require.NoError(c, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(found)))))
		command := exec.CommandContext(c.Context(), "go", "test", "./pkg/kgo", "-v", "-count=1", "-timeout=10m",
			"-skip", strings.Join(notServed, "|"))
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "KGO_LOG_LEVEL=none", "KGO_SEEDS="+c.bootstrap,
			fmt.Sprintf("KGO_TEST_RF=%d", c.nodes), "KGO_TEST_RECORDS=50000")
		out, err := command.CombinedOutput()
		require.NoError(c, err, "%s", out)
		c.Log(verdicts(string(out)))
	})
}

// verdicts counts the tests that passed, subtests included, and names those
// that skipped themselves.
func verdicts(output string) string {
	passed, skipped := 0, []string{}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "--- PASS: ") {
			passed++
		} else if name, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
			skipped = append(skipped, name)
		}
	}
	return fmt.Sprintf("%d passed; skipped themselves: %s", passed, strings.Join(skipped, ", "))
}
