package core

import "time"

// gather makes a leader with a slow disk wait briefly before it proposes waiting requests, until
// the callers whose appends it has just answered return. Otherwise the callers of a busy log split
// into two groups, each waiting for the sync of the other, and every append takes two syncs.
// Together they take one sync plus the time until they return.
//
// It waits only if a sync takes slowSync or longer, and for at most one sync. If callers do not
// return in that time, because they append on a schedule, it waits less and less often.
type gather struct {
	sync    int64 // nanoseconds that this disk takes for a write, smoothed; 0: not known
	durable int64 // Now.Nano when the newest write was durable

	news     bool // something has committed since the last call of begin
	answered int  // requests that were answered by that

	target int   // number of requests that ends the wait; 0: there is no wait
	before int   // requests that were waiting when it began
	until  int64 // Now.Nano at which it ends in any case

	misses int // consecutive waits in which less than half of the answered callers returned
	skip   int // number of commits without a wait
}

// measure records the time of a write that is durable now.
func (g *gather) measure(proposed, now int64) {
	took := min(now-max(proposed, g.durable), int64(maxGather)) // bounded, since a disk may hang once
	g.durable = now
	switch {
	case now == 0 || took < 0:
	case g.sync == 0:
		g.sync = took
	default:
		g.sync += (took - g.sync) / 8
	}
}

// together reports whether all waiting requests should be proposed together, one proposal at a
// time.
func (g *gather) together() bool { return time.Duration(g.sync) >= slowSync && g.skip == 0 }

// begin begins a wait if an entry has committed and no proposal is left. waiting is the number of
// waiting requests.
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

// over reports whether there is no wait, or it has ended, given the number of waiting requests.
// full reports whether they fill an entry.
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
	// slowSync is the sync time beside which the time in which callers return is short.
	slowSync = time.Millisecond
	// maxGather bounds a wait, whatever the disk does.
	maxGather = 20 * time.Millisecond
	// maxMisses bounds the waits skipped: at least one commit in 256 checks whether callers return
	// now.
	maxMisses = 8
)
