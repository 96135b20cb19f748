package core

import "time"

// gather has a leader with a slow disk wait a little, before it proposes what waits, for those
// whose appends it has just answered. Otherwise the callers of a busy log fall into two
// groups, each of which waits for the sync of the other: every append takes two syncs.
// Together they take one, and the time in which they return.
//
// It waits only where a sync takes slowSync, and for one sync at most. Where
// callers do not return in that time, because they append by a schedule, it waits more
// and more seldom.
type gather struct {
	sync    int64 // ns this disk takes for a write, smoothed; 0: not known
	durable int64 // Now.Nano when the newest write was durable

	news     bool // something has committed since begin looked
	answered int  // requests for which it was

	target int   // requests that end the wait; 0: there is none
	before int   // those of target that were there when it began
	until  int64 // Now.Nano when it ends in any case

	misses int // waits in a row in which less than half of those answered returned
	skip   int // commits until the next wait
}

// measure takes the time of a write that is durable now.
func (g *gather) measure(proposed, now int64) {
	took := min(now-max(proposed, g.durable), int64(maxGather)) // of a disk that hangs once, too
	g.durable = now
	switch {
	case now == 0 || took < 0:
	case g.sync == 0:
		g.sync = took
	default:
		g.sync += (took - g.sync) / 8
	}
}

// together reports whether one proposal at a time, with all that waits, is the way.
func (g *gather) together() bool { return time.Duration(g.sync) >= slowSync && g.skip == 0 }

// begin begins a wait if something has committed and nothing is proposed any longer, while
// so many requests wait.
func (g *gather) begin(waiting int, empty bool, now int64) {
	if !g.news {
		return
	}
	answered := g.answered
	g.news, g.answered = false, 0
	switch {
	case g.skip > 0:
		g.skip--
	case empty && g.together():
		g.target, g.before, g.until = answered+waiting, waiting, now+min(g.sync, int64(maxGather))
	}
}

// over reports whether there is no wait, or none any longer, with so many requests there;
// full: they fill an entry.
func (g *gather) over(waiting int, full bool, now int64) bool {
	if g.target == 0 {
		return true
	}
	if waiting < g.target && !full && now < g.until {
		return false
	}
	if returned, answered := waiting-g.before, g.target-g.before; full || 2*returned >= answered {
		g.misses = 0
	} else {
		g.misses = min(g.misses+1, maxMisses)
		g.skip = 1 << g.misses
	}
	g.target = 0
	return true
}

// Bounds of a wait.
const (
	// slowSync is where the time in which callers return is short beside a sync.
	slowSync = time.Millisecond
	// maxGather bounds a wait whatever the disk does.
	maxGather = 20 * time.Millisecond
	// maxMisses: one wait in 256 commits at least looks whether callers return now.
	maxMisses = 8
)
