// Package lagging is what a leader keeps at hand for followers who lag: entries that have left
// memory (Feed) and the snapshot at the start of the log (Base), which are read beside
// the loop, and how fast (Pace).
package lagging
