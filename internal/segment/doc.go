// Package segment defines the log of one replica: entries (opaque bytes with an index, a term and
// a first offset), the hard state, snapshots, and the errors. It knows nothing of Raft's rules,
// the network or the disk.
//
// Package store keeps such a log in segment files, package memory in memory. Package format
// encodes the files; package repair rebuilds damaged ones.
package segment
