// Package node is one node's verbs: append, read, trim and the others, on
// named logs. Servers of protocols call them; a program may too, without any server.
//
// Which logs exist is recorded in the catalog, which is log 0: a log like any
// other, changed with conditional appends (catalog.go). A hosted log (hosted.go)
// is a replica with what the node keeps beside it. The keeper (keeper.go) is
// the node's only clock: it ticks replicas, watches the disk and applies
// retention.
package node
