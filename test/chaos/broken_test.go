//go:build broken

package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history/judge"
)

// campaigns is how many a flaw gets: one does not bring it out every time.
const campaigns = 5

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
			seed := uint64(0)
			for range campaigns {
				seed = smallSeed(seed)
				report, err := Run(t.Context(), Options{
					Seed: seed, Faults: 12, Nodes: 3, Of: []string{"kill", "transfer", "trim"}, Flaw: f.flaw, WithoutDisks: true, Dir: t.TempDir(), Logf: t.Logf,
				})
				require.NoError(t, err)
				require.NotNil(t, report.History, "%v", report.Problems)
				if slices.ContainsFunc(report.History.Violations, func(v judge.Violation) bool { return slices.Contains(f.rules, v.Rule) }) {
					return
				}
				t.Logf("seed %d: %v", seed, report.Problems)
				seed++
			}
			require.Fail(t, "not noticed", "none of %d campaigns broke one of the rules %v", campaigns, f.rules)
		})
	}
}

// smallSeed is the next one with small limits.
func smallSeed(seed uint64) uint64 {
	for limits(seed) == nil {
		seed++
	}
	return seed
}
