// Package node is one node's verbs: append, read, trim and the others, on
// named logs. Servers of protocols call them; a program may too, without any server.
//
// Which logs exist is recorded in the catalog, which is log 0: a log like any
// other, changed with conditional appends. What is due is decided in package
// cluster. Node puts the parts together that act on it (wire.go names who uses
// whom), and starts and stops them; none of them knows all others:
//
//   - verbs: appends, reads, sessions, describer, logAdmin, topics, statuses,
//     transfers, members, former, series. finder finds the log that a verb is for.
//   - what is hosted: hostedLogs, opener (opens and closes replicas), starter, cleaner,
//     and package datadir for the files. A hosted log is a replica with what the node keeps beside it.
//   - the catalog: catalog folds it, changes makes changes, follower waits for those
//     of others.
//   - what is due: controller (on the catalog's leader), leaderSpread, reshaper (on a
//     log's leader), handovers, retention, renewer, joiner, rejoin.
//   - damage: repairer judges it, repairing and segmentRepairer repair, fetcher asks
//     others, entryGiver answers, catalogRepairer does so for the catalog; scrubber
//     looks for it.
//   - other nodes: peers, router, caller, answers.
//   - time: clock ticks replicas and watches the disk (space); package background has all
//     goroutines that run until the node is closed. Package reading is what a read gets.
package node
