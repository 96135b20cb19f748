package scenarios_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/clients/scenarios"
)

// pythonFolder is that of the Python client, and python the program in the environment
// that `make clients` makes there.
func pythonFolder(t *testing.T) (directory, python string) {
	t.Helper()
	tool(t, "python", "python3")
	directory, err := filepath.Abs("../python")
	require.NoError(t, err)
	python = filepath.Join(directory, ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		missing(t, "python", "the Python client has no environment in clients/python/.venv")
	}
	return directory, python
}

func startPython(t *testing.T, flags ...string) *scenarios.Runner {
	t.Helper()
	directory, python := pythonFolder(t)
	r, err := scenarios.Start("python"+strings.Join(flags, ""), directory, append([]string{python, "tests/runner.py"}, flags...)...)
	require.NoError(t, err)
	return r
}

// Each program of the page is run, and what it prints is what the page says.
func TestTheProgramsOfThePythonPageRun(t *testing.T) {
	_, python := pythonFolder(t)
	page, err := os.ReadFile("../../docs/clients-python.md")
	require.NoError(t, err)
	e, err := scenarios.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })

	programs := regexp.MustCompile("(?s)```python\n(.*?)```.*?```\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, programs, strings.Count(string(page), "```python"), "each program has its output")
	require.NotEmpty(t, programs)
	for _, p := range programs {
		require.Contains(t, p[1], "127.0.0.1:7171")
		program := exec.Command(python, "-c", strings.ReplaceAll(p[1], "127.0.0.1:7171", e.Addresses()[0]))
		said := new(strings.Builder)
		program.Stderr = said
		printed, err := program.Output()
		require.NoError(t, err, said.String())
		require.Equal(t, p[2], string(printed))
	}
}
