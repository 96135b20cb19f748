package core

// Pulse recognizes pauses of a process, in which its clients could not reach it, so that no lease
// runs out because of them. It beats every TickMillis. An interval of more than twice that is taken
// for a pause, and counts as one tick.
//
// Its times are monotonic milliseconds. The zero value begins at 0.
type Pulse struct {
	beat    int64 // time of the newest beat
	stalled int64 // length of the pauses before it
}

// Beat records that the process runs at now.
func (p *Pulse) Beat(now int64) { p.stalled, p.beat = p.Stalled(now), now }

// Stalled returns how long the process has paused up to now, see Now.Stalled. At the end of a pause
// it may be TickMillis more than at any time before: what is derived from it may decrease by that.
func (p *Pulse) Stalled(now int64) int64 {
	if gap := now - p.beat; gap > 2*TickMillis {
		return p.stalled + gap - TickMillis
	}
	return p.stalled
}
