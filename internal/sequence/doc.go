// Package sequence decides what enters a log and where: offsets, sessions,
// duplicates, fencing, conditions, trims. It does no I/O, reads no clock and
// starts no goroutine; time comes in as an argument, and the same calls give
// the same answers and the same bytes.
//
// It holds two things. A Table (table.go) is what the committed entries add up
// to; every replica folds them and arrives at the same bytes. A Sequencer
// (sequencer.go) is the leader's view: the Table plus an overlay of proposals, the
// entries that are decided and not committed yet.
//
//	          Append, Command                      Committed
//	                |                                  |
//	                v                                  v
//	... committed entries ... | proposal 7 | proposal 8 | proposal 9 (open)
//	<------- Table ---------> | <---------- overlay ------------->
//	                          |         ^
//	                     Table.End    Drop(8) undoes 8 and 9, exactly
//
// What is in the log was accepted: Fold checks that entries fit together and
// never decides. Everything that may be refused is refused by the Sequencer.
package sequence
