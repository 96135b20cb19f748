// Package sim runs a log on several replicas in one thread under one seed:
// virtual time, a network that loses, delays, reorders and repeats, disks that
// forget and tear what was not synced, processes that die, clients that retry.
// What the clients were told is held against the rules of docs/history.md. The
// same seed gives the same run, to the byte of its history.
//
// The replicas are those of production, moved step by step
// (replica.Stepped), on segments that lie on a faultdisk.Disk. Nodes, doors and
// the transport are not part of it: the processes of internal/testkit/cluster
// are for those.
//
// Start with Run (run.go), then world (world.go), node (node.go) and faults
// (faults.go); clients are in session.go, soloist.go and reader.go.
package sim
