// Package group decides for one consumer group: who is a member, when members
// have to come together anew, and what each is answered. It does no I/O, reads no
// clock and starts no goroutine. Time is an argument, in ms of any clock that
// does not go back; answers that have to wait for others are functions, called
// when they are due.
//
//	          first member            all are here, or time is up
//	Empty ----------------> Joining --------------------------> Syncing
//	  ^                       ^  ^                                 |
//	  | nobody is left        |  | somebody comes, leaves,         | the leader sends
//	  +-----------------------+  | falls silent                    | the assignment
//	                             +------------- Stable <-----------+
//
// Nothing of it is kept over a restart: members find themselves unknown and
// join again. What they have committed is kept, elsewhere.
package group
