package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestReadPrintsWhatIsSelectedAndOnlyThePartsThatAreNamed(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must(`{"key":"eu/1","value":"{\"amount\":5,\"x\":1}","headers":[{"key":"region","value":"eu"}]}
{"key":"us/1","value":"text"}
{"key":"eu/2","value":"{\"amount\":50}"}
`, "append", "orders", "-i", "json")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--where", `key.startsWith("eu/")`, "--only", "key,offset"}, "eu/1\t0\neu/2\t2\n"},
		{[]string{"--key", "us/1", "--key", "eu/2", "--only", "offset"}, "1\n2\n"},
		{[]string{"--key-prefix", "us/"}, "text\n"},
		{[]string{"--header", "region=eu", "--only", "value.amount,value.other.id"}, "{\"amount\":5}\n"},
		{[]string{"--only", "value:3"}, "{\"a\ntex\n{\"a\n"},
		{[]string{"--where", "value.amount > 10", "--skip-failed", "--only", "offset"}, "2\n"},
	} {
		require.Equal(t, row.want, p.must("", append([]string{"read", "orders", "--from-start"}, row.args...)...), "%q", row.args)
	}

	o := p.run(nil, "read", "orders", "--from-start", "--where", "key.startsWith(3)")
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Contains(t, o.err, "line 1, column 15 of the expression")
	require.Contains(t, o.err, "  key.startsWith(3)\n                ^\n", "it shows where")
	o = p.run(nil, "read", "orders", "--from-start", "--where", "value.amount > 10")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "offset 1")
	require.Contains(t, o.err, "FILTER_FAILED")
	o = p.run(nil, "read", "orders", "--from-start", "--header", "region")
	require.Equal(t, terminal.ExitUsage, o.code)
}

func TestTextHasKeysAndHeadersInColumnsAndTheLastRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	p.must("eu\t1\tpaid\tin full\nus\t2\t\n", "append", "orders", "--columns", "header:region,key,value")
	require.Equal(t, "region=eu\t1\tpaid\tin full\nregion=us\t2\t\n", p.must("", "read", "orders", "--only", "headers,key,value"))
	require.Equal(t, "2\n", p.must("", "read", "orders", "--last", "1", "--only", "key"))
	require.Equal(t, "1\n2\n", p.must("", "read", "orders", "--last", "7", "--only", "key"))
	p.must("", "log", "trim", "orders", "--before", "1")
	require.Equal(t, "2\n", p.must("", "read", "orders", "--last", "7", "--only", "key"), "no further than the oldest")

	o := p.run(strings.NewReader("1\n"), "append", "orders", "--columns", "key,value")
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "line 1 has 1 column, not 2 separated by tabs: key, value")
	for _, row := range [][]string{
		{"append", "orders", "--columns", "key,offset"}, {"append", "orders", "--columns", "key,key"}, {"append", "orders", "--columns", "key", "-i", "json"},
		{"append", "orders", "--columns", "value", "--key", "1"}, {"read", "orders", "--last", "0"}, {"read", "orders", "--last", "2", "--tail"},
	} {
		require.Equal(t, terminal.ExitUsage, p.run(nil, row...).code, "%q", row)
	}
}

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
