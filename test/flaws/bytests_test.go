//go:build broken

package flaws

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tries is how often a test runs with a flaw: some take a file again that happens to be there.
const tries = 5

func TestFlawsAreNoticedByTheTestsThatLookForThem(t *testing.T) {
	directory := t.TempDir()
	overlay, err := Overlay(directory)
	require.NoError(t, err)
	programs := map[string]string{} // by room
	for _, f := range ByTests {
		t.Run(f.Flaw+" "+f.Test, func(t *testing.T) {
			if programs[f.Room] == "" {
				program := filepath.Join(directory, strings.ReplaceAll(f.Room, "/", "-"))
				out, err := exec.Command("go", "test", "-c", "-o", program, "-overlay", overlay, "strandline.dev/"+f.Room).CombinedOutput()
				require.NoError(t, err, "%s", out)
				programs[f.Room] = program
			}
			run := func(flaw string) (string, error) {
				command := exec.Command(programs[f.Room], "-test.run", "^"+f.Test+"$", "-test.v")
				command.Dir = filepath.Join("..", "..", f.Room)
				command.Env = append(os.Environ(), Variable+"="+flaw)
				out, err := command.CombinedOutput()
				return string(out), err
			}
			said, err := run("")
			require.NoError(t, err, said)
			require.Contains(t, said, "--- PASS: "+f.Test)
			noticed := func() bool { // and it does not fail for another reason, such as a slow machine
				return err != nil && strings.Contains(strings.Join(strings.Fields(said), " "), f.Says)
			}
			for range tries {
				if said, err = run(f.Flaw); noticed() {
					break
				}
			}
			require.True(t, noticed(), "%v\n%s", err, said)
			require.Contains(t, said, "--- FAIL: "+f.Test)
		})
	}
}
