package report

import (
	"fmt"
	"slices"
	"strings"
)

// verdict puts the main figure of Strandline's own client beside the best of each other
// system, one row for each thing that all of them were asked: it is what most readers
// come for. It has no rows where only Strandline was measured.
func (r Results) verdict() table {
	newest := drawer{r.newest()}
	compared := newest.questions()
	t := table{Title: "Verdict", Names: []string{"measured", "figure"}}
	var systems []string
	for _, q := range compared {
		for _, a := range q.answers {
			if !slices.Contains(systems, a.system) {
				systems = append(systems, a.system)
			}
		}
	}
	ours := slices.Index(systems, own)
	if ours < 0 || len(systems) < 2 {
		return table{}
	}
	systems = slices.Insert(slices.Delete(systems, ours, ours+1), 0, own)
	t.Names = append(append(t.Names, systems...), "Strandline to the best other", "runs")
	for _, q := range compared {
		row := []string{q.name, q.figure}
		var best, mine float64
		runs := 0.0
		for _, s := range systems {
			a := q.of(s)
			row = append(row, a.String())
			switch {
			case s == own:
				mine = a.value
			case !strings.HasPrefix(s, own): // its other ports are not others
				best = max(best, a.value)
			}
			if a.value > 0 && (runs == 0 || a.runs < runs) {
				runs = a.runs
			}
		}
		ratio := "-"
		if mine > 0 && best > 0 {
			ratio = format(mine/best) + " times"
		}
		t.Cells = append(t.Cells, append(row, ratio, format(runs)))
	}
	return t
}

// own is the system whose verdict it is.
const own = "Strandline"

// question is one thing that several systems were asked.
type question struct {
	name, figure string
	answers      []answer
}

// answer is what one system reached with the client that reached most.
type answer struct {
	system string
	value  float64
	runs   float64 // the median is of so many
	failed bool
}

func (a answer) String() string {
	switch {
	case a.value > 0:
		return format(a.value)
	case a.failed:
		return "failed"
	}
	return "-" // was not asked
}

func (q question) of(system string) answer {
	for _, a := range q.answers {
		if a.system == system {
			return a
		}
	}
	return answer{}
}

// mainFigures are what the verdict compares, and the columns that tell one question of a
// benchmark from another.
var mainFigures = []struct {
	benchmark, figure string
	columns           []string
}{
	{"appends", "appends_per_s", []string{"loop", "connections"}},
	{"logs", "appends_per_s", []string{"logs"}},
	{"read", "mib_per_s", []string{"readers", "cache"}},
	{"pipeline", "records_per_s", []string{"round_trip_ms", "in_flight"}},
	{"mixed", "appends_per_s", nil},
}

// questions are those to which Strandline and another system have an answer, or failed to
// give one.
func (r drawer) questions() []question {
	var all []question
	for _, m := range mainFigures {
		for _, kind := range []string{"benchmark", failed} {
			for _, row := range r.Rows {
				if len(row) == 0 || row[0].Name != kind || row.Text(kind) != m.benchmark {
					continue
				}
				if kind == failed {
					r.noteFailure(all, row, m.benchmark)
					continue
				}
				if strings.HasPrefix(row.Text("loop"), "open") {
					continue // the schedule sets the figure
				}
				name := questionName(row, m.columns)
				i := slices.IndexFunc(all, func(q question) bool { return q.name == name })
				if i < 0 {
					i, all = len(all), append(all, question{name: name, figure: m.figure})
				}
				value, _ := row.Number(m.figure)
				runs, _ := row.Number("runs")
				all[i].add(answer{system: row.Text("system"), value: value, runs: runs, failed: value <= 0})
			}
		}
	}
	return slices.DeleteFunc(all, func(q question) bool {
		others := slices.ContainsFunc(q.answers, func(a answer) bool { return !strings.HasPrefix(a.system, own) })
		return !others || !slices.ContainsFunc(q.answers, func(a answer) bool { return a.system == own })
	})
}

// add keeps the best of a system.
func (q *question) add(a answer) {
	i := slices.IndexFunc(q.answers, func(have answer) bool { return have.system == a.system })
	switch {
	case i < 0:
		q.answers = append(q.answers, a)
	case a.value > q.answers[i].value:
		q.answers[i] = a
	}
}

// noteFailure marks the questions of a benchmark that a failed measurement leaves without
// an answer. Its setting is prose, so that it stands for all of its subject that have none.
func (r drawer) noteFailure(all []question, row Row, benchmark string) {
	for i := range all {
		q := &all[i]
		if strings.HasPrefix(q.name, benchmark+", "+classOf(row)) && q.of(row.Text("system")).system == "" {
			q.add(answer{system: row.Text("system"), failed: true})
		}
	}
}

func questionName(row Row, columns []string) string {
	name := row.Text("benchmark") + ", " + classOf(row)
	for _, c := range columns {
		name += ", " + strings.ReplaceAll(c, "_", " ") + " " + row.Text(c)
	}
	return name
}

// classOf is what has to be the same for a fair comparison: what an acknowledgement rests
// on, in the words that all systems share, and the disk. Reads rest on neither.
func classOf(row Row) string {
	durability := row.Text("durability")
	kind := "fsync"
	switch {
	case strings.HasPrefix(durability, "memory"), strings.HasPrefix(durability, "no fsync"):
		kind = "no fsync"
	}
	replicas := "replicas: " + durability[strings.LastIndex(durability, " ")+1:]
	if row.Text(row[0].Name) == "read" {
		return replicas
	}
	return fmt.Sprintf("%s, %s, disk: %s", kind, replicas, row.Text("disk"))
}
