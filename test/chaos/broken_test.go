//go:build broken

package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// flawed are mistakes of test/flaws that the clients of a campaign bring out which reads and
// appends over gRPC do not, each with the rules of which at least one has to notice.
var flawed = []struct {
	flaw  string
	rules []string
}{
	{"digest-misses-an-entry", []string{"digest"}},
	{"kept-hold-expires", []string{"hold"}},
	{"offsets-not-written", []string{"group"}},
}

func TestACampaignNoticesEveryFlaw(t *testing.T) {
	for _, f := range flawed {
		t.Run(f.flaw, func(t *testing.T) {
			report, err := Run(t.Context(), Options{
				Seed: smallSeed(), Faults: 12, Nodes: 3, Of: []string{"kill", "transfer", "trim"}, Flaw: f.flaw, WithoutDisks: true, Dir: t.TempDir(), Logf: t.Logf,
			})
			require.NoError(t, err)
			require.NotNil(t, report.History, "%v", report.Problems)
			var rules []string
			for _, v := range report.History.Violations {
				rules = append(rules, v.Rule)
			}
			require.True(t, slices.ContainsFunc(rules, func(rule string) bool { return slices.Contains(f.rules, rule) }), "%v", report.Problems)
		})
	}
}

// smallSeed is one with small limits.
func smallSeed() (seed uint64) {
	for limits(seed) == nil {
		seed++
	}
	return seed
}
