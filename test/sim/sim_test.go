package sim

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	oneSeed  = flag.Int64("sim.seed", -1, "run just this seed and keep its history")
	seeds    = flag.Uint64("sim.seeds", seedsUsually, "how many seeds TestNoSeedBreaksARule runs")
	fromSeed = flag.Uint64("sim.from", 0, "the first of them")
)

func TestNoSeedBreaksARule(t *testing.T) {
	from, count := *fromSeed, *seeds
	if *oneSeed >= 0 {
		from, count = uint64(*oneSeed), 1
	}
	begun := time.Now()
	var virtual time.Duration
	acked, readBack := 0, 0
	for seed := from; seed < from+count; seed++ {
		options := Options{}
		if *oneSeed >= 0 {
			options.Trace = os.Stderr
		}
		r := Run(seed, options)
		virtual += r.Virtual
		if r.Err() != nil || *oneSeed >= 0 {
			path := filepath.Join(os.TempDir(), "strandline-sim-history.jsonl")
			require.NoError(t, os.WriteFile(path, r.History, 0o600))
			t.Logf("%s\nhistory: strandline check %s", r, path)
		}
		require.NoError(t, r.Err(), "again: %s", Again(seed))
		acked += r.Report.Acked
		readBack += r.Report.ReadBack
		if done := seed - from + 1; done%500 == 0 {
			t.Logf("%d seeds, %d records acknowledged", done, acked)
		}
	}
	t.Logf("%d seeds, %d records acknowledged, %d read back; %s of virtual time, %.0f times as fast as real",
		count, acked, readBack, virtual, virtual.Seconds()/time.Since(begun).Seconds())
}

func TestASeedGivesTheSameRunAgain(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 16; seed += sparse {
		first, second := Run(seed, Options{}), Run(seed, Options{})
		require.Equal(t, first.Counts, second.Counts)
		require.Equal(t, string(first.History), string(second.History))
		other := Run(seed+1000, Options{})
		require.NotEqual(t, string(first.History), string(other.History))
		all.Add(first.Counts)
		all.Add(other.Counts)
	}
	if sparse > 1 {
		return // too few for all that there is
	}
	require.NotZero(t, all.ClockJumps, "clocks have jumped: %+v", all)
	require.NotZero(t, all.Moved+all.Added+all.Removed, "members have changed: %+v", all)
	require.NotZero(t, all.Flips+all.Stale+all.Missing+all.LostDisks, "files were damaged: %+v", all)
	require.NotZero(t, all.Rebuilt+all.Renewed, "and replicas have come back: %+v", all)
	require.NotZero(t, all.Paused*all.Unsynced, "writes have paused before their sync, and processes have ended then: %+v", all)
	require.NotZero(t, all.FullDisks*all.NoRecords*all.OnlyTrims, "disks were full, past one threshold and past both: %+v", all)
	require.NotZero(t, all.HungDisks*all.Stalled, "disks have hung, leaders' too: %+v", all)
	require.NotZero(t, all.Gathered*all.Compared, "rounds have had several inputs, and tables were compared: %+v", all)
	require.NotZero(t, all.Written*all.Spanning*all.Epochs*all.Kept, "clients have done all that they do: %+v", all)
}
