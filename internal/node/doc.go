// Package node is one node's verbs: append, read, trim and the others, on
// named logs. Servers of protocols call them; a program may too, without any server.
//
// Which logs exist is recorded in the catalog, which is log 0: a log like any
// other, changed with conditional appends. What is due is decided in package
// cluster. The folders below have the parts of a node that act on it, by subject; each imports
// only those before it:
//
//   - settings, metrics, background (goroutines), datadir (files), reading (what a read gets)
//   - hosted: a replica with what the node keeps beside it
//   - catalog: the state of the cluster, and changes of it
//   - peers: the other nodes
//   - replicas: opens, repairs and replaces what is hosted
//   - verbs: what may be asked about logs
//   - membership: forms, joins and keeps the cluster
//
// newNode (wire.go) calls the constructors of all parts in the order of start. A constructor
// takes what the part uses, so a part can only use what was made before it. Where a part needs
// something that is made later, it gets it in one of these ways:
//
//   - peers.Answers is a register: the parts that answer questions of other nodes ask such
//     questions themselves, so their answers are entered when all parts exist
//   - peers.Admission sends on the channel Forgotten that this node has an older copy of its
//     data, and replicas.Rejoin receives
//   - replicas.Opener passes itself to the Repairer, as a reopener, with each log that is opened
//   - membership.Joiner and Former are made last and call Begin of the interface beginner,
//     which starts what runs on a member
//
// Node holds the parts, starts and stops them.
package node
