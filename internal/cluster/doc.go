// Package cluster decides the membership of a cluster, the placement of replicas, and which
// changes are due, as pure functions of the catalog's state. It does no I/O, reads no clock and
// starts no goroutine. The catalog stores the values, the leader of a log adapts Raft's
// configuration to them, and nodes host the replicas that are placed on them. The simulator uses
// the same functions.
package cluster
