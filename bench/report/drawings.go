package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"strandline.dev/bench/report/chart"
)

// Drawing is a chart with the name of its file.
type Drawing struct {
	File  string // without directory
	Title string
	SVG   string
}

// Drawings makes the charts that the results allow, of the newest of everything.
func (r Results) Drawings() []Drawing { return drawer{r.newest()}.all() }

// drawer draws results. A system has one colour in all charts: its place among the systems
// of all rows.
type drawer struct{ Results }

// styled gives the series of one chart their looks: the colour is that of the system with
// which the name begins, and those of one system differ by their lines.
func (r drawer) styled(names []string) []chart.Style {
	systems := distinctBy(slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Text("system") == "" }),
		func(row Row) string { return row.Text("system") })
	members := make([]int, len(systems)+len(names))
	styles := make([]chart.Style, len(names))
	for i, name := range names {
		family, length := len(systems)+i, -1 // of no system: a colour of its own
		for k, system := range systems {
			if (name == system || strings.HasPrefix(name, system+", ")) && len(system) > length {
				family, length = k, len(system)
			}
		}
		styles[i] = chart.Style{Family: family, Member: members[family]}
		members[family]++
	}
	return styles
}

func (r drawer) style(series []chart.Series) []chart.Series {
	names := make([]string, len(series))
	for i, s := range series {
		names[i] = s.Name
	}
	for i, style := range r.styled(names) {
		series[i].Style = style
	}
	return series
}

func (r drawer) all() []Drawing {
	var all []Drawing
	add := func(file, title string, svg string) { all = append(all, Drawing{file + ".svg", title, svg}) }
	closed := where(r.of("appends"), "loop", "closed")
	for _, place := range distinctBy(closed, placeOf) {
		rows := whereBy(closed, placeOf, place)
		if series := r.lines(rows, "connections", "appends_per_s", "system", "client", "durability"); len(series) > 0 {
			l := chart.Lines{
				Title:    "Appends against connections, " + place,
				Subtitle: "The same workers spread over more connections, one request outstanding on each; bars: the spread of several runs",
				X:        "connections", Y: "appends/s", XScale: chart.Log, YScale: chart.Log,
				XTicks: ticks(series), Series: series,
			}
			add("appends-"+fileName(place), l.Title, l.SVG())
		}
	}
	for _, place := range distinctBy(r.of("logs"), placeOf) {
		if series := r.lines(whereBy(r.of("logs"), placeOf, place), "logs", "appends_per_s", "system", "client", "durability"); len(series) > 0 {
			l := chart.Lines{
				Title: "Appends over many logs, " + place, Subtitle: "The same workers append to logs chosen at random",
				X: "logs", Y: "appends/s", XScale: chart.Log, YScale: chart.Log, XTicks: ticks(series), Series: series,
			}
			add("logs-"+fileName(place), l.Title, l.SVG())
		}
	}
	for _, benchmark := range []string{"appends", "logs", "pipeline", "mixed"} {
		for _, group := range r.groups(benchmark, Percentiles) {
			series := r.curves(benchmark, Percentiles, group)
			l := chart.Lines{
				Title:    "Latency percentiles: " + benchmark + ", " + group,
				Subtitle: "From the call, or the time in the schedule, to the acknowledgement",
				X:        "percentile", Y: "us", XScale: chart.Tail, YScale: chart.Log,
				XTicks: []float64{1, 50, 90, 99, 99.9, 99.99, 100}, Series: series,
			}
			add("latency-"+fileName(benchmark+" "+group), l.Title, l.SVG())
		}
	}
	if series := r.lines(r.of("pipeline"), "round_trip_ms", "records_per_s", "system", "client", "durability", "in_flight"); len(series) > 0 {
		l := chart.Lines{
			Title:    "Throughput against round trip",
			Subtitle: "One producer, one connection, through a proxy that delays; the last part of a name is the limit in flight; bars: the spread of several runs",
			X:        "round trip, ms", Y: "records/s", YScale: chart.Log, XTicks: ticks(series), Series: series,
		}
		add("pipeline", l.Title, l.SVG())
	}
	bars := func(benchmark, title, subtitle, unit, figure string, group []string, series ...string) {
		if groups := r.bars(r.of(benchmark), figure, group, series); len(groups) > 0 {
			b := chart.Bars{Title: title, Subtitle: subtitle, X: unit, Groups: groups}
			add(benchmark, title, b.SVG())
		}
	}
	bars("read", "Long reads", "Every record is compared with what was written; bare fetch requests alone decode none", "MiB/s", "mib_per_s",
		[]string{"readers", "cache"}, "system", "client", "durability")
	bars("matrix", "The matrix of options", "Sample records sent for a fixed time; lines: the runs' spread", "MB/s of values", "mb_per_s",
		[]string{"setting"}, "system", "client", "durability")
	systemOf := func(row Row) string { return joined(row, []string{"system", "client", "durability"}) }
	runs := where(r.Runs, "benchmark", "matrix")
	for _, system := range distinctBy(runs, systemOf) {
		series := r.perRun(whereBy(runs, systemOf, system), "mb_per_s")
		if len(series) == 0 {
			continue
		}
		l := chart.Lines{
			Title: "The matrix, run by run: " + system, Subtitle: "Throughput of each run, a line for each configuration",
			X: "run", Y: "MB/s", YScale: chart.Log, XTicks: ticks(series), Series: series,
		}
		add("matrix-runs-"+fileName(system), l.Title, l.SVG())
	}
	bars("retention", "Throughput against retention", "The same configurations on logs that keep their records for a long or a short time", "MB/s of values", "mb_per_s",
		[]string{"setting"}, "system", "client", "durability")
	bars("ramdisk", "A disk, a disk in memory, and a log in memory", "The same configurations with the files in different places", "MB/s of values", "mb_per_s",
		[]string{"setting"}, "system", "client", "durability", "disk")
	for _, c := range r.Curves {
		if c.Kind != OverTime {
			continue
		}
		var marks []chart.Mark
		for _, e := range c.Events {
			marks = append(marks, chart.Mark{X: e.At, Name: e.What})
		}
		var line []chart.Point
		for _, p := range c.Points {
			line = append(line, chart.Point{X: p[0], Y: p[1]})
		}
		series := []chart.Series{{Name: "99th percentile of each step", Points: line}}
		l := chart.Lines{
			Title: "Latency of appends over time, everything at once", Subtitle: c.Name,
			X: "s", Y: "us", YScale: chart.Log, Series: series, Marks: marks,
		}
		add(fileName("mixed over time "+c.Name), l.Title+": "+c.Name, l.SVG())
	}
	return all
}

// of are the rows of one benchmark.
func (r drawer) of(benchmark string) []Row { return where(r.Rows, "benchmark", benchmark) }

func where(rows []Row, name, value string) []Row {
	return whereBy(rows, func(r Row) string { return r.Text(name) }, value)
}

func whereBy(rows []Row, of func(Row) string, value string) []Row {
	var some []Row
	for _, row := range rows {
		if of(row) == value {
			some = append(some, row)
		}
	}
	return some
}

// placeOf is what is worth comparing in one chart: the replicas, which are the last
// word of the durability, and the disk.
func placeOf(r Row) string {
	durability := r.Text("durability")
	return "replicas: " + durability[strings.LastIndex(durability, " ")+1:] + ", disk: " + r.Text("disk")
}

// distinctBy are the values of rows in the order of their first row.
func distinctBy(rows []Row, of func(Row) string) []string {
	var all []string
	for _, row := range rows {
		if v := of(row); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

func joined(row Row, names []string) string {
	values := make([]string, 0, len(names))
	for _, name := range names {
		value := row.Text(name)
		switch name {
		case "in_flight":
			value += " in flight"
		case "readers":
			value = "readers: " + value
		}
		values = append(values, value)
	}
	return strings.Join(values, ", ")
}

// lines makes a line for each combination of the columns called names.
func (r drawer) lines(rows []Row, x, y string, names ...string) []chart.Series {
	var all []chart.Series
	for _, row := range rows {
		px, ok := row.Number(x)
		py, ok2 := row.Number(y)
		if !ok || !ok2 {
			continue
		}
		name := joined(row, names)
		i := slices.IndexFunc(all, func(s chart.Series) bool { return s.Name == name })
		if i < 0 {
			i, all = len(all), append(all, chart.Series{Name: name})
		}
		low, high := r.spread(row, y)
		all[i].Points = append(all[i].Points, chart.Point{X: px, Y: py, Low: low, High: high})
	}
	for _, s := range all {
		slices.SortFunc(s.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return r.style(all)
}

// spread finds the single runs behind a row, and the lowest and the highest of
// them; zeros if there is but one.
func (r drawer) spread(row Row, figure string) (low, high float64) {
	var all []float64
	for _, run := range r.Runs {
		if keyOf(run) != keyOf(row) {
			continue
		}
		if v, ok := run.Number(figure); ok {
			all = append(all, v)
		}
	}
	if len(all) < 2 {
		return 0, 0
	}
	return slices.Min(all), slices.Max(all)
}

func (r drawer) bars(rows []Row, figure string, group, series []string) []chart.Group {
	var all []chart.Group
	for _, row := range rows {
		size, ok := row.Number(figure)
		if !ok {
			continue
		}
		name := joined(row, group)
		i := slices.IndexFunc(all, func(g chart.Group) bool { return g.Name == name })
		if i < 0 {
			i, all = len(all), append(all, chart.Group{Name: name})
		}
		low, high := r.spread(row, figure)
		all[i].Values = append(all[i].Values, chart.Value{Series: joined(row, series), Size: size, Low: low, High: high})
	}
	var names []string
	for _, g := range all {
		for _, v := range g.Values {
			if !slices.Contains(names, v.Series) {
				names = append(names, v.Series)
			}
		}
	}
	styles := r.styled(names)
	for _, g := range all {
		for i := range g.Values {
			g.Values[i].Style = styles[slices.Index(names, g.Values[i].Series)]
		}
	}
	return all
}

// perRun makes a line over the numbers of the runs for each configuration.
func (r drawer) perRun(runs []Row, figure string) []chart.Series {
	series := r.lines(runs, repeatColumn, figure, "setting")
	for _, s := range series {
		for i := range s.Points {
			s.Points[i].Low, s.Points[i].High = 0, 0 // a run has no spread
		}
	}
	several := slices.ContainsFunc(series, func(s chart.Series) bool { return len(s.Points) > 1 })
	if !several {
		return nil
	}
	return series
}

// groups are the charts that a benchmark's curves make.
func (r drawer) groups(benchmark string, kind CurveKind) []string {
	var all []string
	for _, c := range r.Curves {
		if c.Benchmark == benchmark && c.Kind == kind && !slices.Contains(all, c.Group) {
			all = append(all, c.Group)
		}
	}
	return all
}

func (r drawer) curves(benchmark string, kind CurveKind, group string) []chart.Series {
	var all []chart.Series
	for _, c := range r.Curves {
		if c.Benchmark != benchmark || c.Kind != kind || c.Group != group {
			continue
		}
		s := chart.Series{Name: c.Name}
		for _, p := range c.Points {
			s.Points = append(s.Points, chart.Point{X: p[0], Y: p[1]})
		}
		all = append(all, s)
	}
	return r.style(all)
}

// ticks are the places that the lines have points at.
func ticks(series []chart.Series) []float64 {
	var all []float64
	for _, s := range series {
		for _, p := range s.Points {
			if !slices.Contains(all, p.X) {
				all = append(all, p.X)
			}
		}
	}
	slices.Sort(all)
	return all
}

// title of a table, for people.
func tableTitle(kind, name string) string {
	titles := map[string]string{
		"appends": "Appends against connections", "logs": "Appends over many logs", "idle": "Idle logs", "fan-out": "Readers that follow one log", "stages": "Where the time of an append went", "read": "Long reads", "pipeline": "One producer against round trip and requests in flight",
		"matrix": "The matrix of options", "retention": "Retention", "ramdisk": "Disk, tmpfs and memory", "mixed": "Everything at once",
	}
	switch {
	case kind == "benchmark" && titles[name] != "":
		return titles[name]
	case kind == "benchmark":
		return name
	case kind == "limit":
		return "Limits of the machine"
	case kind == skipped:
		return "Left out"
	case kind == failed:
		return "Failed"
	}
	return fmt.Sprintf("%s: %s", kind, name)
}
