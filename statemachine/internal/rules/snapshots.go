package rules

import (
	"slices"
	"time"
)

// Schedule says when a snapshot is due.
type Schedule struct {
	Records  int64         // applied since the last snapshot; 0: their number does not matter
	Interval time.Duration // since the last snapshot; 0: the time does not matter
}

// Due reports whether a snapshot is due of a state in which all records below next are applied. last
// is the offset of the last snapshot, and age the time since it.
func (s Schedule) Due(next, last int64, age time.Duration) bool {
	return next > last && (s.Records > 0 && next-last >= s.Records || s.Interval > 0 && age >= s.Interval)
}

// Delayed returns the schedule of one of several replicas that share a directory: up to half as long
// again, by a number in [0, 1) that is different for each. The others find the snapshot of the first.
func (s Schedule) Delayed(by float64) Schedule {
	return Schedule{s.Records + int64(by*float64(s.Records)/2), s.Interval + time.Duration(by*float64(s.Interval)/2)}
}

// NoHold stands for the offset of a hold that does not exist.
const NoHold = -1

// Retirement is what a snapshot makes superfluous. Its steps are in order: a hold is moved only to a
// snapshot that is stored, records are trimmed only below the hold, and a snapshot is deleted only
// when the hold points to a later one. After a crash between two steps there is too much, never too
// little, and Retire returns the rest.
type Retirement struct {
	Move   bool    // move the hold to the snapshot of offset Keep
	Keep   int64   // records from here on, and snapshots, are kept
	Delete []int64 // snapshots, oldest first
}

// Retire decides what becomes of snapshots, given by offset in any order, of which the newest keep
// are kept. hold is the offset of the hold, or NoHold.
func Retire(snapshots []int64, keep int, hold int64) Retirement {
	if len(snapshots) == 0 {
		return Retirement{Keep: max(0, hold)}
	}
	sorted := slices.Clone(snapshots)
	slices.Sort(sorted)
	oldest := max(0, len(sorted)-max(1, keep))
	r := Retirement{Keep: sorted[oldest], Delete: sorted[:oldest]}
	// Another replica may have moved it further, and it never goes back.
	r.Move = hold < r.Keep
	return r
}

// NoState stands for the offset of a state that does not exist.
const NoState = -1

// Spoiled stands for the offset of a state that only a snapshot can replace.
const Spoiled = -2

// Boot is where a replica may begin.
type Boot struct {
	Snapshots []int64 // to be tried in this order; none: Offset
	Offset    int64
}

// BootFrom decides where a replica boots whose log begins at start. own is the offset up to which
// records are applied to the state that it has, or NoState. snapshots are those that exist, in any
// order. It reports false if neither reaches what is left of the log.
func BootFrom(own, start int64, snapshots []int64) (Boot, bool) {
	if own >= start {
		return Boot{Offset: own}, true
	}
	usable := slices.DeleteFunc(slices.Clone(snapshots), func(offset int64) bool { return offset < start || offset < own })
	slices.Sort(usable)
	slices.Reverse(usable)
	if len(usable) > 0 {
		return Boot{Snapshots: usable}, true
	}
	return Boot{}, own == NoState && start == 0
}
