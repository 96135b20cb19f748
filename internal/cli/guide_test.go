package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusedLine is a command of a page that has to be refused, with a comment that has the reason.
var refusedLine = regexp.MustCompile(`^(.*\S)\s+# ([A-Z_]+)\n$`)

// The shell blocks of docs/building-a-database.md are run as they stand, line after line, in a cluster of three nodes.
func TestTheCommandsOfTheGuideToADatabaseWork(t *testing.T) {
	t.Parallel()
	skipUnderRace(t)
	blocks := shellBlocks(t, "../../docs/building-a-database.md")
	require.GreaterOrEqual(t, len(blocks), 9)
	p, _, _ := dev(t, t.TempDir())
	built, err := buildProgram()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(built, filepath.Join(folder, "strandline")))
	environ := append(os.Environ(), "HOME="+folder, "STRANDLINE_SERVER="+p.grpc, "PATH="+folder+":"+os.Getenv("PATH"))
	refused := 0
	for _, block := range blocks {
		for line := range strings.Lines(block) {
			wanted := refusedLine.FindStringSubmatch(line)
			if wanted == nil {
				runLine(t, folder, environ, line)
				continue
			}
			out, err := shell(folder, environ, wanted[1]).CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "%s%s", line, out)
			require.True(t, bytes.Contains(out, []byte("("+wanted[2]+")")), "%s%s", line, out)
			refused++
		}
	}
	require.Equal(t, 3, refused)
}
