package scenarios_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/clients/scenarios"
)

// playPage runs each program of docs/clients-LANGUAGE.md, by the command that run returns,
// and compares what it prints with what the page says.
func playPage(t *testing.T, language string, run func(program string) *exec.Cmd) {
	t.Helper()
	page, err := os.ReadFile("../../docs/clients-" + language + ".md")
	require.NoError(t, err)
	e, err := scenarios.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	// Who comes from the README has made this log.
	c, err := client.Dial(e.Addresses())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = c.Admin().CreateLog(t.Context(), "orders", client.LogConfig{})
	require.NoError(t, err)

	programs := regexp.MustCompile("(?s)```"+language+"\n(.*?)```.*?```\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, programs, strings.Count(string(page), "```"+language), "each program has its output")
	require.NotEmpty(t, programs)
	for _, p := range programs {
		require.Contains(t, p[1], "127.0.0.1:7171")
		program := run(strings.ReplaceAll(p[1], "127.0.0.1:7171", e.Addresses()[0]))
		said := new(strings.Builder)
		program.Stderr = said
		printed, err := program.Output()
		require.NoError(t, err, said.String())
		require.Equal(t, p[2], string(printed))
	}
}
