//go:build broken

package flaws

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlawsAreNoticedByTheTestsThatLookForThem(t *testing.T) {
	overlay, err := Overlay(t.TempDir())
	require.NoError(t, err)
	for _, f := range ByTests {
		t.Run(f.Flaw, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "test")
			out, err := exec.Command("go", "test", "-c", "-o", program, "-overlay", overlay, "strandline.dev/"+f.Room).CombinedOutput()
			require.NoError(t, err, "%s", out)
			run := func(flaw string) (string, error) {
				command := exec.Command(program, "-test.run", "^"+f.Test+"$", "-test.v")
				command.Dir = filepath.Join("..", "..", f.Room)
				command.Env = append(os.Environ(), Variable+"="+flaw)
				out, err := command.CombinedOutput()
				return string(out), err
			}
			said, err := run("")
			require.NoError(t, err, said)
			require.Contains(t, said, "--- PASS: "+f.Test)
			said, err = run(f.Flaw)
			require.Error(t, err)
			require.Contains(t, said, "--- FAIL: "+f.Test)
		})
	}
}
