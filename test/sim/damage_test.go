package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each node has a flipped bit in another of its full segments, so that no record
// is damaged everywhere, and no replica is whole.
func TestDamageInDifferentPlacesOnEveryNodeIsRepaired(t *testing.T) {
	repaired, runs := 0, 0
	for seed := uint64(0); seed < 5; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			for slices.ContainsFunc(w.nodes, func(n *node) bool { return len(full(n)) < len(w.nodes) }) && w.now < 60*second {
				w.run(w.now + second)
			}
			for i, n := range w.nodes {
				n.die(false)
				name := full(n)[i]
				n.disk.FlipBit(name, inEntry)
				n.hurt("flipped bit", name)
			}
			w.faults.over = true // each looks at all that it has when it starts
		})
		require.NoError(t, r.Err(), "seed %d", seed)
		// One that lacks what all others have trimmed may come back as a new one, and
		// what is trimmed meanwhile needs no repair.
		require.GreaterOrEqual(t, 3, r.Counts.Repaired+r.Counts.Rebuilt+r.Counts.Renewed, "%v", r)
		repaired += r.Counts.Repaired
		runs++
	}
	require.Greater(t, repaired, 2*runs)
}

// inEntry is a place in one of the first entries of a segment.
const inEntry = segmentBytes / 5

// full are the segments of the replica here that are not written to any more, and
// have entries: one before an entry that is longer than a segment may have none.
func full(n *node) []string {
	files := n.files()
	last := newest(files, "")
	return slices.DeleteFunc(files, func(name string) bool {
		content := n.disk.Content(name)
		return !strings.HasSuffix(name, ".seg") || name == last || len(content) <= inEntry || content[inEntry] == 0
	})
}

// A replica that comes back with an older copy of its newest segment, and without
// its durable watermark, has forgotten votes and acknowledged entries, and nothing on its
// disk shows that. If it votes before a leader detects it, one damaged replica of three
// loses records. This is what the durable watermark is for, and why replicas that are blind
// are given in the other runs; see docs/testing.md.
func TestTheRulesNoticeAReplicaThatForgotSilently(t *testing.T) {
	// The first seed is one that notices, until the simulator draws otherwise: under the
	// race detector each takes seconds.
	const first, seedsMost = 63, 100
	for seed := uint64(first); seed < first+seedsMost; seed++ {
		if r := Run(seed, Options{Silent: true, Replicas: 3, Time: 20 * time.Second}); r.Err() != nil {
			require.NotZero(t, r.Counts.Forgot)
			t.Logf("%v", r)
			return
		}
	}
	require.Fail(t, "nobody noticed", "in %d seeds", seedsMost)
}

// The same with the durable watermark: it knows of most, and the rest is given.
func TestAReplicaThatForgotKnowsFromItsWatermark(t *testing.T) {
	var all Counts
	runs := 0
	for seed := uint64(0); seed < 20; seed += sparse {
		r := run(seed, Options{Replicas: 3, Time: 20 * time.Second}, func(w *world) {
			w.aged = true
			ending{w}.suffer()
		})
		require.NoError(t, r.Err(), "seed %d", seed)
		all.Add(r.Counts)
		runs++
	}
	t.Logf("%+v", all)
	require.Greater(t, all.Noticed, runs/2)
	require.Greater(t, all.Noticed, all.Forgot)
}
