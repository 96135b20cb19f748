//go:build broken

package sim

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	flaws "strandline.dev/test/flaw"
	"strandline.dev/test/history"
)

var (
	flawSeeds = flag.Uint64("sim.flaw.seeds", 5000, "how many seeds each flaw of a broken build gets")
	flawFrom  = flag.Int64("sim.flaw.from", -1, "the first of them; -1: one that has noticed it before")
)

// flawed are the flaws of package flaw that this simulator shows, and the rules
// of which at least one has to notice.
var flawed = []struct {
	flaw flaws.Flaw
	// seed noticed it when this was written. A change of the simulator makes other
	// runs of the same seeds, and the search takes longer then.
	seed  uint64
	rules []string
}{
	{flaws.AckBeforeMajority, 12, []string{"lost", "one-value", "real-time", "linearizable"}},
	{flaws.AckBeforeFsync, 136, []string{"lost", "one-value", "real-time", "linearizable", "commit"}},
	{flaws.VoteNotSynced, 631, []string{"lost", "one-value", "real-time", "linearizable", "commit", "replicas", problem}},
	{flaws.SessionsNotInSnapshot, 4, []string{"once", "order", "failed", problem}},
	{flaws.ReadsPastCommit, 29, []string{"one-value", "commit", "lost", problem}},
	{flaws.LeaseRead, 59, []string{"linearizable", "trim"}},
	{flaws.FollowerRead, 4, []string{"linearizable", "trim"}},
	{flaws.GapAccepted, 4, []string{"order", "one-value", "lost"}},
	{flaws.TrimBeforeCommit, 173, []string{"trim"}},
	{flaws.ExpiredSessionComesBack, 0, []string{"ended"}},
	{flaws.OffByOneAtRoll, 147, []string{"gapless", problem}},
	{flaws.FenceOnArrival, 75, []string{"fence"}},
	{flaws.ConditionOnArrival, 1, []string{"condition"}},
	{flaws.DuplicateGetsNewOffset, 0, []string{"once"}},
	{flaws.UnknownToldAsFailed, 31, []string{"failed"}},
	{flaws.RecoveryTrustsTheCache, 56, []string{"lost", "one-value", "real-time", "linearizable", "commit", problem}},
	{flaws.RollForgetsTheDirectory, 56, []string{"lost", "one-value", "real-time", "linearizable", "commit", problem}},
	{flaws.SnapshotRunsAhead, 4, []string{problem}},
	{flaws.StaleFramesCount, 4, []string{problem, "lost", "one-value"}},
	{flaws.PlacesForgotten, 1, []string{"forgotten"}},
	{flaws.LeaseCutShort, 1, []string{"lease"}},
	{flaws.KeepRenewsNothing, 1, []string{"lease"}},
	{flaws.ResolveOnFollower, 317, []string{"resolve"}},
	{flaws.EpochStaysOpen, 4, []string{"resolve", "ended"}},
	{flaws.ProducerBeginsAnywhere, 12, []string{"order"}},
	{flaws.RefusedTrimIsDone, 7, []string{"trim"}},
	{flaws.FullForEver, 1, []string{problem}},
	{flaws.WrittenAtCommit, 1, []string{"written"}},
	{flaws.FirstEntryAnswers, 337, []string{"linearizable", "lost", "commit", "one-value"}},
	{flaws.HalfIsEnough, 23, []string{"linearizable", "lost", "commit", "one-value"}},
	{flaws.LeaseNotInSnapshot, 4, []string{problem}},
	{flaws.ConditionPerRound, 75, []string{"condition"}},
	{flaws.MoveNotDurable, 380, []string{problem}},
}

func TestEveryFlawIsNoticedAndEveryRuleNoticesOne(t *testing.T) {
	noticed := map[string]bool{}
	for _, f := range flawed {
		t.Run(string(f.flaw), func(t *testing.T) {
			require.NoError(t, flaws.Choose(f.flaw))
			defer func() { require.NoError(t, flaws.Choose("")) }()
			from := f.seed
			if *flawFrom >= 0 {
				from = uint64(*flawFrom)
			}
			for _, rule := range notice(t, string(f.flaw), f.rules, from, *flawSeeds, runBroken) {
				noticed[rule] = true
			}
		})
	}
	for _, b := range broken {
		for _, rule := range noticeMistake(t, b.mistake, b.rules, b.make) {
			noticed[rule] = true
		}
	}
	for _, rule := range history.Rules() {
		require.True(t, noticed[rule.Name], "rule %s noticed nothing", rule.Name)
	}
}

// runBroken takes a panic for the end of a process, which it is.
func runBroken(seed uint64) (r *Result) {
	defer func() {
		if reason := recover(); reason != nil {
			r = &Result{Seed: seed, Problem: fmt.Errorf("panic: %v", reason)}
		}
	}()
	return Run(seed, Options{flaw: &flaw{}}) // the rules have to notice, not the world
}
