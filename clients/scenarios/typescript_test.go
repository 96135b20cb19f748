package scenarios_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/clients/scenarios"
)

func TestTheProgramsOfTheTypeScriptPageRun(t *testing.T) {
	t.Parallel()
	node := tool(t, "typescript", "node")
	directory := built(t, "typescript", "dist/test/runner.js")
	playPage(t, "typescript", func(program string) *exec.Cmd {
		// The program has no types of its own, and a package may import itself by its name.
		command := exec.Command(node, "--input-type=module", "--eval", program)
		command.Dir = directory
		return command
	})
}

func startTypeScript(t *testing.T) *scenarios.Runner {
	t.Helper()
	node := tool(t, "typescript", "node")
	directory := built(t, "typescript", "dist/test/runner.js")
	r, err := scenarios.Start("typescript", directory, node, "dist/test/runner.js")
	require.NoError(t, err)
	return r
}
