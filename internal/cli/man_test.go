package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/bench"
	"strandline.dev/internal/cli/terminal"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "man1")
	require.Equal(t, terminal.ExitOK, execute(t, nil, "", "man", directory).code)
	pages := 0
	terminal.EveryCommand(newRoot(&terminal.Terminal{}, bench.New), func(command *cobra.Command) {
		if !command.IsAvailableCommand() {
			return
		}
		name := strings.ReplaceAll(command.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(directory, name))
		require.NoError(t, err)
		require.Contains(t, string(page), ".SH NAME")
		pages++
	})
	require.Greater(t, pages, 30)
}

func TestAManualPageKeepsTheLinesOfALayout(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	require.Equal(t, terminal.ExitOK, execute(t, nil, "", "man", directory).code)
	page, err := os.ReadFile(filepath.Join(directory, "strandline-append.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), ".EX\n  text   a record a line, without its line feed\n  json   a JSON object a line")
	require.Equal(t, strings.Count(string(page), ".EX"), strings.Count(string(page), ".EE"))
}

func TestTheVersionIsPrintedByCommandAndFlag(t *testing.T) {
	t.Parallel()
	command, flag := execute(t, nil, "", "version"), execute(t, nil, "", "--version")
	require.Equal(t, terminal.ExitOK, flag.code)
	require.Equal(t, command.out, flag.out)
}
