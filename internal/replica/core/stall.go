package core

// SetStalled records whether the disk has stalled. What a leader commits meanwhile is
// on the followers' disks alone, and where that is no majority nothing commits.
func (c *Core) SetStalled(stalled bool) { c.stalled = stalled }

// handOverStalled lets another replica lead while the disk hangs. A leader that is
// not ready does so too: the votes of the others elect a replica that cannot store
// its own, and it is ready only when an entry of its term is on its disk.
func (c *Core) handOverStalled() {
	if !c.stalled || c.handover.to != 0 || !c.HandOver(0) {
		return
	}
	c.logger.Error("the disk has not finished a write for long; handing leadership over", "to", c.handover.to)
}
