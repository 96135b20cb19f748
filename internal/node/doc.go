// Package node implements one node and its verbs on named logs: append, read, trim and others. The
// servers of the protocols call the verbs; a program may call them without a server.
//
// The catalog lists the logs. It is log 0, a log like any other, and changes by conditional
// appends. Package cluster decides due changes. The following subpackages contain the parts of a
// node, by subject; each imports only earlier ones:
//
//   - settings, metrics, background (goroutines), datadir (files), reading (what a read gets)
//   - hosted: a replica with what the node keeps beside it
//   - catalog: the state of the cluster, and changes of it
//   - peers: the other nodes
//   - replicas: opens, repairs and replaces what is hosted
//   - verbs: what may be asked about logs
//   - membership: forms, joins and keeps the cluster
//
// newNode (wire.go) calls the constructors of all parts in the order of start. The parameters of a
// constructor are the parts that it uses, which must exist before it. A part that needs a later
// part gets it in one of these ways:
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
