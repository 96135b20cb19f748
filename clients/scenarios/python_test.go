package scenarios_test

import (
	"os/exec"
	"path/filepath"
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
	directory = built(t, "python", ".venv/bin/python")
	return directory, filepath.Join(directory, ".venv/bin/python")
}

func startPython(t *testing.T, flags ...string) *scenarios.Runner {
	t.Helper()
	directory, python := pythonFolder(t)
	r, err := scenarios.Start("python"+strings.Join(flags, ""), directory, append([]string{python, "tests/runner.py"}, flags...)...)
	require.NoError(t, err)
	return r
}

func TestTheProgramsOfThePythonPageRun(t *testing.T) {
	t.Parallel()
	_, python := pythonFolder(t)
	playPage(t, "python", func(program string) *exec.Cmd { return exec.Command(python, "-c", program) })
}
