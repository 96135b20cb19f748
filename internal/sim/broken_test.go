//go:build broken

package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	flaws "strandline.dev/internal/flaw"
	"strandline.dev/internal/testkit/history"
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
	{flaws.AckBeforeMajority, 11, []string{"lost", "one-value", "real-time", "linearizable"}},
	{flaws.AckBeforeFsync, 120, []string{"lost", "one-value", "real-time", "linearizable", "commit"}},
	{flaws.VoteNotSynced, 631, []string{"lost", "one-value", "real-time", "linearizable", "commit", "replicas", problem}},
	{flaws.SessionsNotInSnapshot, 4, []string{"once", "order", "failed", problem}},
	{flaws.ReadsPastCommit, 18, []string{"one-value", "commit", "lost", problem}},
	{flaws.LeaseRead, 14, []string{"linearizable", "trim"}},
	{flaws.FollowerRead, 1, []string{"linearizable", "trim"}},
	{flaws.GapAccepted, 3, []string{"order", "one-value", "lost"}},
	{flaws.TrimBeforeCommit, 154, []string{"trim"}},
	{flaws.ExpiredSessionComesBack, 0, []string{"ended"}},
	{flaws.OffByOneAtRoll, 124, []string{"gapless", problem}},
	{flaws.FenceAtTheDoor, 37, []string{"fence"}},
	{flaws.ConditionAtTheDoor, 0, []string{"condition"}},
	{flaws.DuplicateGetsNewOffset, 0, []string{"once"}},
	{flaws.UnknownToldAsFailed, 26, []string{"failed"}},
	{flaws.RecoveryTrustsTheCache, 47, []string{"lost", "one-value", "real-time", "linearizable", "commit", problem}},
	{flaws.RollForgetsTheDirectory, 46, []string{"lost", "one-value", "real-time", "linearizable", "commit", problem}},
	{flaws.SnapshotRunsAhead, 4, []string{problem}},
	{flaws.StaleFramesCount, 4, []string{problem, "lost", "one-value"}},
	{flaws.PlacesForgotten, 1, []string{"forgotten"}},
	{flaws.LeaseCutShort, 1, []string{"lease"}},
	{flaws.KeepRenewsNothing, 1, []string{"lease"}},
	{flaws.ResolveOnFollower, 173, []string{"resolve"}},
	{flaws.EpochStaysOpen, 2, []string{"resolve", "ended"}},
	{flaws.ProducerBeginsAnywhere, 3, []string{"order"}},
	{flaws.RefusedTrimIsDone, 3, []string{"trim"}},
	{flaws.FullForEver, 0, []string{problem}},
	{flaws.WrittenAtCommit, 1, []string{"written"}},
	{flaws.FirstEntryAnswers, 75, []string{"linearizable", "lost", "commit", "one-value"}},
	{flaws.HalfIsEnough, 11, []string{"linearizable", "lost", "commit", "one-value"}},
	{flaws.LeaseNotInSnapshot, 4, []string{problem}},
	{flaws.ConditionPerRound, 45, []string{"condition"}},
	{flaws.MoveNotDurable, 73, []string{problem}},
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
		for seed := range uint64(10) {
			for _, rule := range brokenRules(Run(seed, Options{Time: 8 * time.Second, flaw: b.make()})) {
				noticed[rule] = true
			}
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
