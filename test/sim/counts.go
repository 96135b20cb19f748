package sim

import (
	"fmt"
	"reflect"
)

// Counts are what happened in a run.
type Counts struct {
	Events  int // of any kind
	Records int // that clients made

	Kills      int `about:"faults"` // of processes, and restarts after a disk failed
	PowerCuts  int `about:"faults"`
	Pauses     int `about:"faults"`
	Partitions int `about:"faults"` // both ways or one
	DiskFaults int `about:"faults"` // failed writes and syncs, disks that stop halfway
	FullDisks  int `about:"faults"`
	SlowDisks  int `about:"faults"`
	HungDisks  int `about:"faults"` // for 10 s and more, or until the process restarted
	ClockJumps int `about:"faults"`

	Written  int `about:"clients"` // appends that were answered before they were durable
	Spanning int `about:"clients"` // appends that took several entries
	Epochs   int `about:"clients"` // that were ended
	Kept     int `about:"clients"` // sessions, by a sign of life without an append

	Checked   int `about:"checks"` // appends with one that were accepted
	Conflicts int `about:"checks"` // that were refused for a record that matches
	TooOld    int `about:"checks"` // that could not be decided
	Short     int `about:"checks"` // that a search which had too little time might have decided
	Again     int `about:"checks"` // accepted ones that were sent again, and answered alike

	HoldsSeen   int `about:"holds"` // looks at a node whether it has what is kept
	HoldsBroken int `about:"holds"` // in vain, as they were moved meanwhile

	// What the replicas went through.
	NoRecords int `about:"rounds"` // looks of a leader at disks that had no room for records
	OnlyTrims int `about:"rounds"` // nor for other commands than trims
	LeftFull  int `about:"rounds"` // looks of a leader whose own disk lacked room that a majority had
	Stalled   int `about:"rounds"` // ticks of a leader whose disk hung
	Torn      int `about:"rounds"` // power cuts between two frames
	TornMoves int `about:"rounds"` // of those, right behind a change of the configuration
	Paused    int `about:"rounds"` // writes, between what was written and its sync
	Unsynced  int `about:"rounds"` // processes that ended then
	Gathered  int `about:"rounds"` // rounds with several inputs
	Unticked  int `about:"rounds"` // ticks that a replica did not need
	Compared  int `about:"rounds"` // states that two replicas had at the same index
	Digests   int `about:"rounds"` // of what was stored, equal to those of the table
	Trailing  int `about:"rounds"` // of those, where the table had covered a part

	StoredRuns int `about:"consumers"` // runs of stored batches that one was handed by reference
	LateLooks  int `about:"consumers"` // looks at those, some time later

	// Mixes of faults, of which each run has one.
	Even   int `about:"mixes"`
	Uneven int `about:"mixes"`
	Heavy  int `about:"mixes"` // one kind is as frequent as all others
	Few    int `about:"mixes"` // of one to three kinds
	Calm   int `about:"mixes"`
	Storms int `about:"mixes"`

	// What was asked of the log on purpose.
	Handovers    int `about:"changes"`
	Moved        int `about:"changes"` // replicas, to another node
	Added        int `about:"changes"`
	Removed      int `about:"changes"`
	Renewed      int `about:"changes"` // replicas that came back under another id
	ReadersAdded int `about:"changes"` // read replicas
	ReadersMoved int `about:"changes"`
	ReadersRead  int `about:"changes"` // reads that one answered
	Settled      int `about:"changes"` // times that the log had reached the replicas that it should have
	IdleMoves    int `about:"changes"` // of an idle log, with a power cut of all at the end
	Recoveries   int `about:"changes"` // of a cluster of which nodes were lost for good
	BegunAnew    int `about:"changes"` // logs in memory that had lost their majority
	Stuck        int `about:"changes"` // logs in memory whose replicas ended since they could not elect a leader
	Silent       int `about:"changes"` // runs that have settled without an append at the end

	// What happened to files of nodes that were down.
	Flips     int `about:"damage"` // of a bit
	Stale     int `about:"damage"` // files put back as they once were
	Missing   int `about:"damage"` // files
	LostDisks int `about:"damage"`
	Exchanged int `about:"damage"` // files, with others of the same replica or of one elsewhere

	Distrusted int `about:"damaged replicas"` // that found out, and stopped
	Rebuilt    int `about:"damaged replicas"` // with what others had
	Repaired   int `about:"damaged replicas"` // segments, while the replica ran
	Noticed    int `about:"damaged replicas"` // that knew from their durable watermark that they had forgotten something
	Forgot     int `about:"damaged replicas"` // that had, and could not know
}

// Add adds those of another run.
func (c *Counts) Add(other Counts) {
	sum, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(other)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}

// Lines returns the counts as text for people, those about one thing in one line.
func (c *Counts) Lines() (lines []string) {
	value, about := reflect.ValueOf(*c), ""
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if a := field.Tag.Get("about"); a != about || i == 0 {
			about = a
			if a == "" {
				a = "all"
			}
			lines = append(lines, a+":")
		}
		lines[len(lines)-1] += fmt.Sprintf(" %s %d", field.Name, value.Field(i).Int())
	}
	return lines
}

// Again is the command that repeats a seed.
func Again(seed uint64, o Options) string {
	again := fmt.Sprintf("go test ./test/sim -run TestNoSeedBreaksARule -v -sim.seed=%d", seed)
	for _, of := range []struct {
		set  bool
		flag string
	}{{o.Holds && !o.Hard, " -sim.holds"}, {o.Digests && !o.Hard, " -sim.digests"}, {o.Checks, " -sim.checks"}, {o.Torn && !o.Hard, " -sim.torn"}, {o.Hard, " -sim.hard"}, {o.Sleep, " -sim.sleep"}} {
		if of.set {
			again += of.flag
		}
	}
	return again
}
