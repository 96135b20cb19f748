// Package group makes the decisions for one consumer group: its members, the time of rebalances,
// and the answers. It does no I/O, reads no clock and starts no goroutine. Time is a parameter, in
// ms of any monotonic clock. Answers that depend on other members are given to functions when they
// are known.
//
//	          first member            all are here, or time is up
//	Empty ----------------> Joining --------------------------> Syncing
//	  ^                       ^  ^                                 |
//	  | nobody is left        |  | somebody comes, leaves,         | the leader sends
//	  +-----------------------+  | falls silent                    | the assignment
//	                             +------------- Stable <-----------+
//
// The state does not survive a restart: members are then unknown and join again. Committed offsets
// survive; package coordinator stores them.
package group
