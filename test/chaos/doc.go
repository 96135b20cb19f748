// Package chaos runs a cluster of real processes under faults drawn from a seed, with load from
// clients of all kinds, and checks the clients' answers against the rules of docs/history.md:
//
//	go run ./test/chaos/run --seed 7 --faults 30
//
// Run (campaign.go) runs one campaign. plan.go derives the schedule from the seed; kinds.go has the
// table of faults, which are in faults_*.go; load.go has the clients; compare.go reads the logs
// back at the end; report.go has the figures.
//
// A seed reproduces the schedule: the faults, the roles of their targets, and their durations. It
// does not reproduce the timing of processes and the network.
package chaos
