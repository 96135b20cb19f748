package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The backup and the restore of docs/backup.md, with what may go wrong.
func TestABackupIsRestoredWithItsOffsets(t *testing.T) {
	t.Parallel()
	from, to := startNode(t, filepath.Join(t.TempDir(), "from")), startNode(t, filepath.Join(t.TempDir(), "to"))
	file := filepath.Join(t.TempDir(), "orders.raw")
	backUp := func(args ...string) {
		raw := from.must("", append([]string{"read", "orders", "-o", "raw"}, args...)...)
		require.NoError(t, os.WriteFile(file, []byte(raw), 0o600))
	}
	restore := func() string { return to.must("", "append", "orders", "-i", "raw", "--keep-offsets", "-f", file) }
	same := func() {
		t.Helper()
		require.Equal(t, from.must("", "read", "orders", "-o", "json"), to.must("", "read", "orders", "-o", "json"))
	}

	from.must("", "log", "create", "orders")
	for i := range 30 {
		from.must(fmt.Sprintf(`{"key":"k%d","value":"v%d","headers":[{"key":"h","value":"x"}]}`, i, i), "append", "orders", "-i", "json")
	}
	from.must("", "log", "trim", "orders", "--before", "10")
	to.must("", "log", "create", "orders")
	backUp()
	require.Contains(t, restore(), "appended 20 records to orders, offsets 10 to 29")
	same()
	require.Contains(t, restore(), "appended nothing", "what was restored is passed over")

	// The next one begins where this one ended.
	from.must("more\nand more\n", "append", "orders")
	backUp("--from", "30")
	require.Contains(t, restore(), "offsets 30 to 31")
	same()

	from.must("one\ntwo\nthree\n", "append", "orders")
	backUp("--from", "33")
	o := to.run(nil, "append", "orders", "-i", "raw", "--keep-offsets", "-f", file)
	require.NotZero(t, o.code)
	require.Contains(t, o.err, "the input continues at offset 33, but the log ends at 32")
	o = to.run(strings.NewReader("a\n"), "append", "orders", "--keep-offsets")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.err, "--input raw")
}
