// Package segment is the contract of one replica's log: entries, which are opaque
// bytes with an index, a term and a first offset, the hard state, snapshots, and
// the errors. It knows no rules of Raft, no network and no disk.
//
// Package store keeps such a log in segment files, package memory in memory.
// Package format is the bytes of the files, package repair rebuilds damaged ones.
package segment
