package sim

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
)

var (
	oneSeed  = flag.Int64("sim.seed", -1, "run just this seed and keep its history")
	seeds    = flag.Uint64("sim.seeds", seedsUsually, "how many seeds TestNoSeedBreaksARule runs")
	checks   = flag.Bool("sim.checks", false, "have clients append on the condition that no newer record has some key")
	holds    = flag.Bool("sim.holds", false, "have holds set, moved and released as well")
	digests  = flag.Bool("sim.digests", false, "have most requests hashed as well")
	torn     = flag.Bool("sim.torn", false, "tear groups of frames, cut leaders off in moves, and end without appends as well")
	hard     = flag.Bool("sim.hard", false, "all of these but checks, and limits that the seed draws, slow consumers, and more")
	sleep    = flag.Bool("sim.sleep", false, "have clients pause again and again, and logs be idle soon after")
	fromSeed = flag.Uint64("sim.from", 0, "the first of them")
)

func TestMain(m *testing.M) {
	// A world is small and makes much that is garbage at once: a third of the time would go into collecting it.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

func TestNoSeedBreaksARule(t *testing.T) {
	from, count := *fromSeed, *seeds
	if *oneSeed >= 0 {
		from, count = uint64(*oneSeed), 1
	}
	begun := time.Now()
	var virtual time.Duration
	acked, readBack := 0, 0
	for seed := from; seed < from+count; seed++ {
		options := Options{Holds: *holds, Checks: *checks, Digests: *digests, Torn: *torn, Hard: *hard, Sleep: *sleep}
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
		require.NoError(t, r.Err(), "again: %s", Again(seed, options))
		acked += r.Report.Acked
		readBack += r.Report.ReadBack
		if done := seed - from + 1; done%500 == 0 {
			t.Logf("%d seeds, %d records acknowledged", done, acked)
		}
	}
	t.Logf("%d seeds, %d records acknowledged, %d read back; %s of virtual time, %.0f times as fast as real",
		count, acked, readBack, virtual, virtual.Seconds()/time.Since(begun).Seconds())
}

// What a hold keeps is on every node for as long as it does, whatever is trimmed, and
// whoever leads, crashes or comes back. The seeds are others than those without holds.
func TestNothingGoesThatAHoldKeeps(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 24; seed += sparse {
		r := Run(seed, Options{Holds: true})
		require.NoError(t, r.Err(), "again: %s", Again(seed, Options{Holds: true}))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.HoldsSeen, "holds have kept something")
}

// A checked append lands behind no record that its check does not allow, whoever leads; and one that was
// accepted is answered so when it is sent again.
func TestNoCheckedAppendLandsBehindAMatch(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 24; seed += sparse {
		o := Options{Checks: true, Torn: seed%4 == 0}
		r := Run(seed, o)
		require.NoError(t, r.Err(), "again: %s", Again(seed, o))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.Checked, "some were accepted")
	require.NotZero(t, all.Conflicts, "some were refused")
	require.NotZero(t, all.TooOld, "some could not be decided")
	require.NotZero(t, all.Short, "some for want of time")
	require.NotZero(t, all.Again, "some were sent again")
}

// Power goes between the frames of a group, rather around changes of the configuration, leaders
// are cut off while the log moves, and half of the worlds have to heal without an append. Holds
// and digests come along.
func TestGroupsTornBetweenFramesWhileTheLogMoves(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 12; seed += sparse {
		o := Options{Torn: true, Holds: seed%2 == 0, Digests: seed%4 < 2}
		r := Run(seed, o)
		require.NoError(t, r.Err(), "again: %s", Again(seed, o))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.Torn, "groups were torn between frames")
	if sparse == 1 {
		require.NotZero(t, all.TornMoves, "with a change of the configuration among them")
	}
	require.NotZero(t, all.Silent, "and logs have settled without an append")
}

// A hard world draws small limits and shares of memory, has clients that look late at the stored bytes
// which they were handed by reference, and is torn as well. Half of these have checked appends, too.
func TestHardWorldsBreakNoRule(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 12; seed += sparse {
		o := Options{Hard: true, Checks: seed >= 6}
		r := Run(seed, o)
		require.NoError(t, r.Err(), "again: %s", Again(seed, o))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.LateLooks, "consumers have looked at what they were handed")
	if sparse == 1 {
		require.NotZero(t, all.Checked, "and checked appends have landed")
	}
	require.NotZero(t, all.Silent, "logs have settled without an append")
}

// Clients pause, and their log is idle after a tick or a few: its replicas leave ticks out, and leases
// run on. Half of these worlds are hard.
func TestIdleLogsBreakNoRule(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 24; seed += sparse {
		o := Options{Sleep: true, Holds: true, Hard: seed%2 == 1}
		r := Run(seed, o)
		require.NoError(t, r.Err(), "again: %s", Again(seed, o))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.Unticked, "replicas have left ticks out")
	require.NotZero(t, all.Kept, "and sessions were kept meanwhile")
}

// Seeds of hard worlds that have shown a mistake once, of the program or of the simulator.
func TestHardWorldsThatHaveShownAMistakeBreakNoRule(t *testing.T) {
	for _, seed := range []uint64{
		27,      // a log in memory was given up for a founder that was yet to begin
		20_125,  // a log continued with a replica that lacked its oldest records, and stopped
		1000314, // entries that a leader had replaced by fewer counted as forgotten
		1000378, // a replica had no digest before the next append
		1001111, // a log in memory waited for ever for replicas that could not elect a leader
		2001132, // a mistake of the simulator: a node that was recovered spoke to one that still had the catalog of before
		2032994, // a sole voter that had started again answered others by the commit index that it started with
		2032788, // a mistake of the simulator: a replica whose oldest snapshot was damaged was to have each digest
		2016934, // a mistake of the simulator: a trim that was yet to commit counted as done before a recovery
		2010751, // hundreds of small messages overtook each other, and each was sent again with all behind it
		2010202, // a repaired replica whose oldest snapshot lay behind its first records had no digest of those
		2009033, // a mistake of the simulator: what a majority was yet to commit counted as acknowledged before a recovery
		1003522, // a repair took an entry that had been replaced by one of the term before it
		3000148, // a mistake of the simulator: a node that had forgotten a placement opened the harmed replica of before
		1000387, // a learner took a lost leader for the leader of a log in memory
		4006525, // a read took entries from segments that a write in progress was to replace
	} {
		r := Run(seed, Options{Hard: true})
		require.NoError(t, r.Err(), "again: %s", Again(seed, Options{Hard: true}))
	}
}

// A log in memory begins anew when its majority has ended, and never else; then nothing of before is acknowledged,
// read or given again.
func TestALogInMemoryBeginsAnewOnlyWithoutItsMajority(t *testing.T) {
	var all Counts
	for seed := uint64(3); seed < 48; seed += 4 * sparse {
		r := Run(seed, Options{Hard: true})
		require.NoError(t, r.Err(), "again: %s", Again(seed, Options{Hard: true}))
		all.Add(r.Counts)
	}
	require.NotZero(t, all.BegunAnew)
}

// Every replica has the same digest, whatever it was given: entries as they came, those of a
// repair, a snapshot instead of what was trimmed. The tables are compared at every index that two
// replicas have reached, and at the end with what is stored.
func TestEveryReplicaHasTheSameDigest(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 24; seed += sparse {
		r := Run(seed, Options{Digests: true})
		require.NoError(t, r.Err(), "seed %d with digests", seed)
		all.Add(r.Counts)
	}
	require.NotZero(t, all.Digests, "digests were compared")
	require.NotZero(t, all.Trailing, "of logs that were covered in part")
}

// Whatever an operator moves, and whoever is down or cut off meanwhile, replicas come back to
// where the rule of the log wants them, and no record is lost on the way.
func TestReplicasComeBackToWhereTheRuleWantsThem(t *testing.T) {
	misplaced := 0
	for seed := uint64(0); seed < 24; seed += 2 * sparse {
		r := run(seed, Options{Nodes: 6, Replicas: 3, Places: true}, func(w *world) {
			ending{w}.suffer()
			misplaced += w.catalog.misplaced
		})
		require.NoError(t, r.Err(), "seed %d with places", seed)
	}
	require.NotZero(t, misplaced, "an operator has moved replicas against the rule")
}

// Read replicas crash, lose their files, come, go and move; what they give to readers is judged as
// what any replica gives, and at the end they have what all have.
func TestReadReplicasHaveWhatTheVotersHave(t *testing.T) {
	var all Counts
	for seed := uint64(0); seed < 24; seed += 2 * sparse {
		r := Run(seed, Options{Nodes: 6, Replicas: 3, ReadReplicas: true})
		require.NoError(t, r.Err(), "seed %d with read replicas", seed)
		all.Add(r.Counts)
	}
	if sparse == 1 {
		require.NotZero(t, all.ReadersMoved)
	}
	require.NotZero(t, all.ReadersAdded)
	require.NotZero(t, all.ReadersRead)
	t.Logf("%d moved, %d added, %d reads", all.ReadersMoved, all.ReadersAdded, all.ReadersRead)
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
	require.NotZero(t, all.FullDisks*all.NoRecords*all.OnlyTrims*all.LeftFull, "disks were full, past one threshold and past both, and a leader's alone: %+v", all)
	require.NotZero(t, all.HungDisks*all.Stalled, "disks have hung, leaders' too: %+v", all)
	require.NotZero(t, all.Gathered*all.Compared, "rounds have had several inputs, and tables were compared: %+v", all)
	require.NotZero(t, all.Written*all.Spanning*all.Epochs*all.Kept, "clients have done all that they do: %+v", all)
}

// A cluster is upgraded one node at a time, goes back, is upgraded again and finalized,
// while clients continue and processes die. It is never raised while a node runs that would
// not understand it; what went back meanwhile does not run until it is upgraded.
func TestAClusterIsUpgradedGoesBackAndIsFinalized(t *testing.T) {
	older, newer := cluster.Levels{}, cluster.Levels{Min: 1, Max: 2}
	for seed := uint64(0); seed < 20; seed += sparse {
		r := run(seed, Options{Nodes: 3, Replicas: 3}, func(w *world) {
			s := suite{t, w, seed}
			some := func() *node { return w.nodes[w.random.IntN(len(w.nodes))] }
			level := func() int { return w.catalog.newest().FeatureLevel() }
			w.run(w.now + second)
			for range 12 { // of which the last node is not upgraded
				one := w.nodes[w.random.IntN(2)]
				one.install([]cluster.Levels{older, newer}[w.random.IntN(2)])
				w.run(w.now + w.between(100*millisecond, second))
				require.False(t, w.operator.finalize(some(), func() {}), "seed %d: one node is older", seed)
			}
			s.append(succeeded)
			for _, n := range w.nodes {
				n.install(newer)
				w.run(w.now + w.between(0, second))
			}
			back := some() // goes back after it was asked
			s.within("nodes that all run", func() bool { return w.nodes[0].up && w.nodes[1].up && w.nodes[2].up })
			require.True(t, w.operator.finalize(some(), func() { back.install(older) }), "seed %d", seed)
			require.Equal(t, 2, level(), "seed %d", seed)
			require.False(t, w.operator.finalize(some(), func() {}), "seed %d: it is done", seed)
			w.run(w.now + 4*second)
			require.False(t, back.up && back.serves() && !back.refuses(newer) && back.catalog().FeatureLevel() == 2, "seed %d: it understands 1", seed)
			s.append(succeeded) // the others are a majority
			back.install(newer)
			s.within("the node that went back", func() bool { return back.serves() && back.catalog().FeatureLevel() == 2 })
			s.append(succeeded)
			s.requireRead()
		})
		require.NoError(t, r.Err(), "seed %d", seed)
	}
}

// One, two or all replicas of an idle log move. As soon as that is reported done,
// or a while later, when the old replicas' files are gone, the power of all nodes
// goes. What the new replicas have on disk has to be enough to continue.
func TestPowerCutsAfterAMoveOfAnIdleLog(t *testing.T) {
	done := 0
	for seed := uint64(0); seed < 60; seed += sparse {
		moved := 1 + int(seed%3)
		r := run(seed, Options{Nodes: 6, Replicas: 3}, func(w *world) {
			if !w.moveIdle(moved) {
				return
			}
			w.until(t, seed, func() bool { return w.catalog.newest().log.Settled() })
			w.run(w.now + int64(w.dice(0, 5, 100, 1000))*millisecond)
			w.cutPower()
			done++
		})
		require.NoError(t, r.Err(), "seed %d: %d replicas moved", seed, moved)
	}
	require.Greater(t, done*sparse, 30)
}

// The power of one node, or of all, goes at any step of such a move.
func TestPowerCutsAtEveryStepOfAMove(t *testing.T) {
	const seed, stride = 0, 61 * sparse // events between two cuts: some milliseconds
	for moved := 1; moved <= 3; moved++ {
		for victim := range 7 { // 0: all
			for step, settled := 1+victim, false; !settled; step += stride {
				r := run(seed, Options{Nodes: 6, Replicas: 3}, func(w *world) {
					require.True(t, w.moveIdle(moved))
					for range step {
						w.step()
						settled = settled || w.catalog.newest().log.Settled()
					}
					if victim == 0 {
						w.cutPower()
					} else if n := w.nodes[victim-1]; n.up {
						n.die(true)
					}
				})
				require.NoError(t, r.Err(), "%d replicas moved, node %d cut at step %d", moved, victim, step)
			}
		}
	}
}

// moveIdle lets the log fall idle and begins to move some of its three replicas. It
// reports false if the log has not got three.
func (w *world) moveIdle(replicas int) bool {
	if len(w.catalog.newest().log.Replicas) != 3 {
		return false
	}
	w.run(w.now + second)
	w.quiet = true
	w.run(w.now + 3*second)
	w.catalog.place(func(l *cluster.Log, next uint64) bool {
		for i, n := range w.operator.free(&l.Placement)[:replicas] {
			l.Move(l.Replicas[i].Node, n.id, next+uint64(i))
		}
		return true
	})
	return true
}

// step lets the next event happen.
func (w *world) step() { w.run(w.events[0].at) }

// until runs the world until something is so.
func (w *world) until(t *testing.T, seed uint64, is func() bool) {
	for deadline := w.now + 30*second; !is(); w.step() {
		require.NoError(t, w.problem, "seed %d", seed)
		require.Less(t, w.now, deadline, "seed %d", seed)
	}
}

// cutPower ends all nodes that run.
func (w *world) cutPower() {
	for _, n := range w.nodes {
		if n.up {
			n.die(true)
		}
	}
}
