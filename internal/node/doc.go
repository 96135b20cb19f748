// Package node is one node's verbs: append, read, trim and the others, on
// named logs. Servers of protocols call them; a program may too, without any server.
//
// Which logs exist is recorded in the catalog, which is log 0: a log like any
// other, changed with conditional appends. What is due is decided in package
// cluster. The folders below have the owners that act on it, by subject; each imports only
// those before it:
//
//   - settings, metrics, background (goroutines), datadir (files), reading (what a read gets)
//   - hosted: a replica with what the node keeps beside it
//   - catalog: the state of the cluster, and changes of it
//   - peers: the other nodes
//   - replicas: opens, repairs and replaces what is hosted
//   - verbs: what may be asked about logs
//   - membership: forms, joins and keeps the cluster
//
// Node puts them together (wire.go here and in each folder names who uses whom), and starts
// and stops them.
package node
