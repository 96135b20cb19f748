package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestANodeSaysOnceThatItsKafkaPortIsForThisMachineAlone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		flags []string
		times int
	}{
		{[]string{"--grpc", "0.0.0.0:0", "--insecure"}, 1},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", "0.0.0.0:0", "--insecure"}, 0},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", "none", "--insecure"}, 0},
		{nil, 0},
	} {
		p := startNode(t, t.TempDir(), row.flags...)
		require.Equal(t, terminal.ExitOK, p.terminate())
		require.Equal(t, row.times, strings.Count(p.stderr.String(), "other nodes send no Kafka client"), "%v", row.flags)
	}
}
