// Package lagging supplies lagging followers with data that a leader has to read from disk:
// entries that have left memory (Feed) and the snapshot at the start of the log (Base), both read
// outside the loop. Pace limits the rate.
package lagging
