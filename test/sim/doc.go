// Package sim runs a log on several replicas in one thread under one seed:
// virtual time, a network that loses, delays, reorders and repeats, disks that
// forget, tear, hang and fill up, files that are damaged, processes that die, members
// that come and go, clients that retry. The answers that the clients got are checked
// against the rules of docs/history.md. The same seed gives the same run, to the
// byte of its history.
//
// The replicas are the production code, run step by step (runtime.Stepped), with segments on a
// faultdisk.Disk; repair.Repairer repairs damage. As in a node, package cluster decides the
// placement of replicas, the replicas that a node hosts, the results of finished moves and lost
// replicas, the effects of full disks, and recovery after permanent loss. The simulator has its own
// code to carry these out: catalog.go, hosting.go, replicarepair.go, space.go. A log's durable
// watermark detects most lost data; the simulator informs a replica of the rest, see damage.go. The
// catalog is a register here, not a log. Servers and the transport are not part of the simulation;
// test/cluster tests them with processes.
//
// A write is a coroutine (writing.go), which runs only while the world waits for it, so that other
// events can occur between the write and its sync.
//
// Start with Run (run.go), then world (world.go), node (node.go) and what happens to
// them: mix.go, faults.go, damage.go, operator.go, idle.go, level.go, torn.go, hard.go, recover.go,
// memorylog.go. Clients are in session.go,
// keeper.go, soloist.go and reader.go. The command in seeds runs any number of them.
package sim
