//go:build broken

package flaw

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Variable is that of the environment which names the flaw of a process.
const Variable = "STRANDLINE_FLAW"

var all = []Flaw{
	AckBeforeMajority, AckBeforeFsync, CutAtBadChecksum, VoteNotSynced, SessionsNotInSnapshot, ReadsPastCommit, LeaseRead,
	FollowerRead, GapAccepted, TrimBeforeCommit, ExpiredSessionComesBack, OffByOneAtRoll, FenceOnArrival, ConditionOnArrival,
	DuplicateGetsNewOffset, UnknownToldAsFailed, RecoveryTrustsTheCache, RollForgetsTheDirectory, SnapshotRunsAhead, StaleFramesCount,
	PlacesForgotten, LeaseCutShort, KeepRenewsNothing, ResolveOnFollower, EpochStaysOpen, ProducerBeginsAnywhere, RefusedTrimIsDone, FullForEver,
	WrittenAtCommit, FirstEntryAnswers, HalfIsEnough, LeaseNotInSnapshot, ConditionPerRound, MoveNotDurable,
}

// chosen is the one that this process makes; none at first.
var chosen atomic.Value

func init() {
	chosen.Store(Flaw(""))
	name := os.Getenv(Variable)
	if name == "" {
		return
	}
	// The program refuses variables of its name that are not its settings.
	_ = os.Unsetenv(Variable)
	if err := Choose(Flaw(name)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Variable, err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "this program is broken on purpose:", name)
}

// Choose lets this process make the mistake f from now on, "" none. An error
// says that there is no such flaw.
func Choose(f Flaw) error {
	if f != "" && !slices.Contains(all, f) {
		var names []string
		for _, one := range all {
			names = append(names, string(one))
		}
		return fmt.Errorf("there is no flaw %q, only %s", f, strings.Join(names, ", "))
	}
	chosen.Store(f)
	return nil
}

// Is reports whether this process makes the mistake f.
func Is(f Flaw) bool { return chosen.Load() == f }
