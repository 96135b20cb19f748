package tidy

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forBenchmarks are packages, and with a slash at the end trees of them, that a server does not link.
// The benchmarks alone need them.
var forBenchmarks = []string{
	"github.com/IBM/sarama",
	"github.com/jcmturner/",
	"github.com/rcrowley/go-metrics",
	"github.com/eapache/",
	"github.com/hashicorp/go-uuid",
	"github.com/davecgh/go-spew/",
	"github.com/twmb/franz-go/pkg/kgo", // the server has the messages alone
	"strandline.dev/bench/driver",
	"strandline.dev/bench/workload",
	"strandline.dev/bench/suite",
	"strandline.dev/internal/cli/bench",
}

func TestAServerLinksNothingThatOnlyBenchmarksNeed(t *testing.T) {
	server, benchmarks := linked(t, "./cmd/strandline"), linked(t, "./cmd/strandline-bench")
	for _, unwanted := range forBenchmarks {
		matches := func(p string) bool {
			return p == unwanted || strings.HasSuffix(unwanted, "/") && strings.HasPrefix(p, unwanted)
		}
		require.False(t, slices.ContainsFunc(server, matches), "cmd/strandline links %s", unwanted)
		require.True(t, slices.ContainsFunc(benchmarks, matches), "cmd/strandline-bench does not need %s: remove it from the list", unwanted)
	}
}

// linked returns the import paths of all packages of a program.
func linked(t *testing.T, program string) []string {
	t.Helper()
	command := exec.Command("go", "list", "-deps", program)
	command.Dir = "../.."
	out, err := command.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
