package report

import (
	"slices"
	"strings"
)

// newest leaves of what was measured more than once the last, in the place of
// the first: a row by what it is of, with the runs behind it, and a curve by its
// name.
func (r Results) newest() Results {
	r.Rows = lastOf(r.Rows, keyOf)
	r.Runs = lastRuns(r.Runs)
	r.Curves = lastOf(r.Curves, func(c Curve) string {
		return strings.Join([]string{c.Benchmark, string(c.Kind), c.Group, c.Name}, "\n")
	})
	return r
}

// keys are the columns that identify what a row is of, beside its figures.
var keys = []string{
	"benchmark", "system", "client", "durability", "disk",
	"loop", "connections", "readers", "cache", "round_trip_ms", "in_flight", "setting", "stage",
}

// keyOf returns the fields that say what a row is of.
func keyOf(r Row) string { return joined(r, keys) }

func lastOf[T any](all []T, key func(T) string) []T {
	var last []T
	places := map[string]int{}
	for _, one := range all {
		k := key(one)
		if i, known := places[k]; known {
			last[i] = one
			continue
		}
		places[k] = len(last)
		last = append(last, one)
	}
	return last
}

// lastRuns forgets the runs of a thing when those of the next row of it begin,
// with number 1: there may be fewer of them.
func lastRuns(runs []Row) []Row {
	var last []Row
	for _, run := range runs {
		if n, _ := run.Number(repeatColumn); n == 1 {
			key := keyOf(run)
			last = slices.DeleteFunc(last, func(r Row) bool { return keyOf(r) == key })
		}
		last = append(last, run)
	}
	return last
}
