// Package sequence decides which records and commands enter a log, and at which offsets:
// sessions, duplicates, fencing, conditions, trims. It does no I/O, reads no clock and starts no
// goroutine; time is an argument, and the same calls give the same answers and the same bytes.
//
// It has two main types. A Table (table.go) is the state after the committed entries; every
// replica folds them and gets the same bytes. A Sequencer (sequencer.go) is the leader's view:
// the Table plus an overlay of proposals, the entries that are decided but not committed yet.
//
//	          Append, Command                      Committed
//	                |                                  |
//	                v                                  v
//	... committed entries ... | proposal 7 | proposal 8 | proposal 9 (open)
//	<------- Table ---------> | <---------- overlay ------------->
//	                          |         ^
//	                     Table.End    Drop(8) undoes 8 and 9, exactly
//
// Entries in the log were accepted: Fold checks that they are consistent and never decides. Only
// the Sequencer refuses requests.
package sequence
