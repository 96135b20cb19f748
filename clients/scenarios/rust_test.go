package scenarios_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/clients/scenarios"
)

// rustRunner is what plays the scenarios, in the folder of the Rust client.
const rustRunner = "target/release/runner"

func TestTheProgramsOfTheRustPageRun(t *testing.T) {
	t.Parallel()
	cargo := tool(t, "rust", "cargo")
	directory := built(t, "rust", rustRunner)
	playPage(t, "rust", func(program string) *exec.Cmd {
		source := filepath.Join(t.TempDir(), "page.rs")
		require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
		// Of the whole workspace, so that what it has in common with the runner is not built anew.
		command := exec.Command("sh", "-c", cargo+" build --quiet --offline --release --workspace --bin page --features page/program && target/release/page")
		command.Dir = directory
		command.Env = append(os.Environ(), "STRANDLINE_PAGE="+source)
		return command
	})
}

func startRust(t *testing.T) *scenarios.Runner {
	t.Helper()
	directory := built(t, "rust", rustRunner)
	r, err := scenarios.Start("rust", directory, filepath.Join(directory, rustRunner))
	require.NoError(t, err)
	return r
}
