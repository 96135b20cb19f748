// Package datadir is what a node keeps in its data directory: who it is (Identity,
// node.json), which replicas were created there (ReplicaList, replicas.json), how old
// the directory certainly is (Incarnations, lives.json), and where the replicas of logs
// have their files, watermarks and lost marks (Files). CheckData checks the node's own
// files while it is stopped.
package datadir
