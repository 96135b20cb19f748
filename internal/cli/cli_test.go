package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

// outcome of one command line.
type outcome struct {
	code     int
	out, err string
}

func execute(t *testing.T, environ []string, in string, args ...string) outcome {
	t.Helper()
	var out, err bytes.Buffer
	c := &terminal.Terminal{In: strings.NewReader(in), Out: &out, Err: &err, Args: args, Environ: environ}
	code := run(c, bench.New)
	return outcome{code, out.String(), err.String()}
}

// TestTranscripts keeps what people see of the command line: the help of every
// command, and what wrong command lines answer.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "strandline", d.Cmd)
			o := execute(t, nil, "", strings.Fields(d.Input)...)
			var b strings.Builder
			b.WriteString(o.out)
			b.WriteString(o.err)
			fmt.Fprintf(&b, "exit code %d\n", o.code)
			return b.String()
		})
	})
}

func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	terminal.EveryCommand(newRoot(&terminal.Terminal{}, bench.New), func(command *cobra.Command) {
		name := command.CommandPath()
		require.NotEmpty(t, command.Short, name)
		if !command.HasParent() || strings.Contains(name, "completion") || command.Name() == "help" {
			return
		}
		require.NotEmpty(t, command.Example, name)
		for example := range strings.Lines(command.Example) {
			require.Contains(t, example, command.Root().Name(), name)
		}
		require.NotNil(t, command.Args, "%s must say which arguments it takes", name)
	})
}

func TestExamplesUseFlagsThatExist(t *testing.T) {
	t.Parallel()
	root := newRoot(&terminal.Terminal{}, bench.New)
	terminal.EveryCommand(root, func(command *cobra.Command) {
		for example := range strings.Lines(command.Example) {
			for _, part := range strings.Split(example, "|") {
				part, _, _ = strings.Cut(part, "<")
				words := strings.Fields(part)
				if len(words) == 0 || words[0] != "strandline" {
					continue
				}
				target, rest, err := root.Find(words[1:])
				require.NoError(t, err, example)
				target.InitDefaultHelpFlag()
				require.NoError(t, target.ParseFlags(rest), example)
			}
		}
	})
}

func TestErrorsAreJSONWhereResultsAre(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", "--json", "log", "info")
	require.Equal(t, terminal.ExitUsage, o.code)
	require.JSONEq(t, `{"error":{"exit_code":2,"hint":"see: strandline log info --help","message":"LOG is missing","retryable":false}}`, o.err)
	require.Empty(t, o.out)
}

func TestCompletionKnowsCommandsAndWords(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", "__complete", "log", "")
	require.Equal(t, terminal.ExitOK, o.code)
	require.Contains(t, o.out, "create\t")
	o = execute(t, nil, "", "__complete", "read", "orders", "-o", "")
	require.Contains(t, o.out, "raw\n")
}

func TestCompletionIsSilentWithoutAServer(t *testing.T) {
	t.Parallel()
	o := execute(t, nil, "", "__complete", "--server", "127.0.0.1:1", "read", "")
	require.Equal(t, terminal.ExitOK, o.code)
	require.NotContains(t, o.err, "refused")
}
