package report

import (
	"slices"
)

// Median makes one row of several runs of the same thing: each figure is the
// median of its column. It adds how many runs there were and how far the main
// figure spread: the difference between the highest and the lowest, in percent
// of the median, and nothing of a single run. Columns that are no figures must be the same in all.
func Median(runs []Row, figure string) Row {
	if len(runs) == 0 {
		return nil
	}
	middle := make(Row, 0, len(runs[0])+2)
	for i, f := range runs[0] {
		if f.Name == repeatColumn {
			continue
		}
		if _, ok := f.Value.(float64); ok {
			f.Value = median(column(runs, i))
		}
		middle = append(middle, f)
	}
	all := numbers(runs, figure)
	var spread any = ""
	if m := median(all); m > 0 && len(runs) > 1 {
		spread = (slices.Max(all) - slices.Min(all)) / m * 100
	}
	return append(middle, Field{"runs", len(runs)}, Field{"spread_percent", spread})
}

// repeatColumn numbers the runs of the same thing.
const repeatColumn = "run"

// Repeat is a row with the number of the run, from 1, as the second column.
func Repeat(r Row, n int) Row {
	return slices.Insert(slices.Clone(r), 1, Field{repeatColumn, n})
}

func column(runs []Row, i int) []float64 {
	var all []float64
	for _, r := range runs {
		if i < len(r) {
			if v, ok := r[i].Value.(float64); ok {
				all = append(all, v)
			}
		}
	}
	return all
}

func numbers(runs []Row, name string) []float64 {
	var all []float64
	for _, r := range runs {
		if v, ok := r.Number(name); ok {
			all = append(all, v)
		}
	}
	return all
}

// median is 0 of nothing, and of an even number the mean of the middle two.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
