// Package cluster decides who the members of a cluster are, which replicas a log
// is to have and where, and what is due: pure functions of the catalog's state.
// It does no I/O, reads no clock and starts no goroutine. The catalog keeps its
// values, the leader of a log brings Raft's configuration to what they say, and
// nodes host the replicas that are placed on them. The simulator runs the same
// rules.
package cluster
