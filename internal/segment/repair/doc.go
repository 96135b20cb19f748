// Package repair finds damage in the files of a log, and rebuilds damaged files from entries that
// other replicas have.
//
// Open opens a log. If it is damaged, the error says which entries are lost. A survey runs
// through survey.go, layout.go, walk.go, visit.go, inventory.go and judge.go; a repair through
// repairer.go, proof.go, stock.go and rebuild.go.
package repair
