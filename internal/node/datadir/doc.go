// Package datadir reads and writes the data directory of a node: its identity (Identity,
// node.json), the replicas created there (ReplicaList, replicas.json), the incarnation of the
// directory (Incarnations, lives.json), and the files, watermarks and lost marks of replicas
// (Files). CheckData checks the node's own files while the node is stopped.
package datadir
