// Package chaos lets a cluster of real processes live through faults that a
// seed draws, under load from clients of all kinds, and holds what the clients
// were answered against the rules of docs/history.md:
//
//	go run ./test/chaos/run --seed 7 --faults 30
//
// Run (campaign.go) is one campaign, plan.go what a seed makes of it, kinds.go
// the table of faults with faults_*.go behind it, load.go the clients, compare.go
// what is read back at the end, report.go the figures.
//
// A seed repeats the schedule: which faults, upon whom by role, how long. It does
// not repeat what the processes and the network did in real time.
package chaos
