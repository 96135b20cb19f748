// Package sim runs a log on several replicas in one thread under one seed:
// virtual time, a network that loses, delays, reorders and repeats, disks that
// forget, tear, hang and fill up, files that are damaged, processes that die, members
// that come and go, clients that retry. The answers that the clients got are checked
// against the rules of docs/history.md. The same seed gives the same run, to the
// byte of its history.
//
// The replicas are those of production, moved step by step (runtime.Stepped), on
// segments that lie on a faultdisk.Disk; what is damaged is repaired by
// repair.Repairer. Where replicas are to be, what a node hosts, what follows from a
// finished move or a lost replica, what disks have room for and what nobody has any more
// is decided by package cluster, as in a node; how that is carried out is written again
// here: catalog.go, hosting.go, replicarepair.go, space.go. Of what damage takes, a log's
// durable watermark shows most; the little that it cannot see a replica learns here, see
// damage.go. The catalog is no log here but a register; servers and the transport are not
// part of it. The processes of test/cluster are for
// those.
//
// A write is a coroutine (writing.go), which runs only while the world waits for it,
// so that other things can happen between what it writes and its sync.
//
// Start with Run (run.go), then world (world.go), node (node.go) and what happens to
// them: mix.go, faults.go, damage.go, operator.go, idle.go, level.go, torn.go, hard.go, recover.go,
// memorylog.go. Clients are in session.go,
// keeper.go, soloist.go and reader.go. The command in seeds runs any number of them.
package sim
