// Package background is what a node does beside its calls: goroutines that all end when
// it is closed (Tasks), looks at what is due, at intervals and when something has
// changed (Looks, Bell), and work of the disk that is left behind where the disk hangs
// (SlowWork).
package background
