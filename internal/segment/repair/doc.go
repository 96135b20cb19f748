// Package repair finds out what of a log's files is damaged, and rebuilds them from
// entries that other replicas have.
//
// Open opens a log, and says what is lost if it is damaged. A survey goes survey.go,
// layout.go, walk.go, visit.go, inventory.go, judge.go; a repair repairer.go, give.go, proof.go,
// stock.go, finish.go, rebuild.go.
package repair
