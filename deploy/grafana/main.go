// Command grafana makes the two dashboards beside it out of the list of metrics, docs/metrics.md. A metric that the list
// does not have is an error, and each metric of the list that no panel shows gets a panel in the last row.
//
//	go run ./deploy/grafana          writes deploy/grafana/cluster.json and log.json
//	go run ./deploy/grafana -rules   prints the expressions as recording rules, which promtool checks
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	rules := flag.Bool("rules", false, "print all expressions as rules of Prometheus instead of writing the dashboards")
	flag.Parse()
	if err := run(".", *rules); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

// run works on the repository whose root is given.
func run(root string, rules bool) error {
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return err
	}
	boards, err := dashboards(string(page))
	if err != nil {
		return err
	}
	if rules {
		fmt.Print(asRules(boards))
		return nil
	}
	for _, b := range boards {
		if err := os.WriteFile(filepath.Join(root, "deploy", "grafana", b.file), render(b), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// metric is a row of the list.
type metric struct {
	name, meaning string
	labels        []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `(strandline_[a-z0-9_]+)` \\| ([a-z, ]*) ?\\| (.*) \\|$")

// list returns the metrics of docs/metrics.md, in its order.
func list(page string) (all []metric) {
	for _, row := range metricRow.FindAllStringSubmatch(page, -1) {
		m := metric{name: row[1], meaning: row[3]}
		if labels := strings.TrimSpace(row[2]); labels != "" {
			m.labels = strings.Split(labels, ", ")
		}
		all = append(all, m)
	}
	return all
}

// histogram reports whether the metric has buckets.
func (m metric) histogram() bool {
	return strings.HasSuffix(m.name, "_seconds") && !strings.HasSuffix(m.name, "_timestamp_seconds")
}

// ofLog reports whether only /metrics/logs has the metric.
func (m metric) ofLog() bool { return slices.Contains(m.labels, "log") }

var named = regexp.MustCompile(`\bstrandline_[a-z0-9_]+`)

// metricsOf returns the metrics of an expression without the suffixes of a histogram's series.
func metricsOf(expr string, known map[string]metric) (names []string) {
	for _, name := range named.FindAllString(expr, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); base != name && known[base].histogram() {
				name = base
			}
		}
		names = append(names, name)
	}
	return names
}

// dashboards returns both, complete.
func dashboards(page string) ([]dashboard, error) {
	metrics := list(page)
	known := map[string]metric{}
	for _, m := range metrics {
		known[m.name] = m
	}
	boards := []dashboard{clusterBoard(), logBoard()}
	for i := range boards {
		b := &boards[i]
		shown := map[string]bool{}
		for r := range b.rows {
			for p := range b.rows[r].panels {
				panel := &b.rows[r].panels[p]
				var meanings []string
				for _, q := range panel.queries {
					for _, name := range metricsOf(q.expr, known) {
						m, listed := known[name]
						switch {
						case !listed:
							return nil, fmt.Errorf("panel %q of %s: docs/metrics.md has no metric %s", panel.title, b.file, name)
						case m.ofLog() != b.ofLog && name != "strandline_build_info":
							return nil, fmt.Errorf("panel %q of %s: %s belongs on the other dashboard", panel.title, b.file, name)
						}
						shown[name] = true
						if meaning := name + ": " + m.meaning; !slices.Contains(meanings, meaning) {
							meanings = append(meanings, meaning)
						}
					}
				}
				if panel.hint != "" {
					meanings = append([]string{panel.hint}, meanings...)
				}
				panel.about = strings.Join(meanings, "\n\n")
			}
		}
		rest := row{title: "All other metrics", collapsed: true}
		for _, m := range metrics {
			if m.ofLog() == b.ofLog && !shown[m.name] {
				rest.panels = append(rest.panels, panelOf(m, b.selector))
			}
		}
		if len(rest.panels) > 0 {
			b.rows = append(b.rows, rest)
		}
	}
	return boards, nil
}

// panelOf shows a metric for which nobody has made a panel.
func panelOf(m metric, selector string) panel {
	title := strings.ReplaceAll(strings.TrimPrefix(m.name, "strandline_"), "_", " ")
	legend := "{{instance}}"
	for _, l := range m.labels {
		if l != "log" {
			legend += " {{" + l + "}}"
		}
	}
	p := panel{title: title, about: m.name + ": " + m.meaning, unit: unitOf(m.name)}
	switch {
	case m.histogram():
		p.title += ", p99"
		p.queries = []query{{quantile("0.99", m.name, selector, append([]string{"instance"}, m.labels...)...), legend}}
	case strings.HasSuffix(m.name, "_total"):
		p.title = strings.TrimSuffix(p.title, " total") + " per second"
		p.queries = []query{{"rate(" + m.name + "{" + selector + "}[$__rate_interval])", legend}}
		if p.unit == "bytes" {
			p.unit = "Bps"
		}
	default:
		p.queries = []query{{m.name + "{" + selector + "}", legend}}
	}
	return p
}

func unitOf(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	}
	return "short"
}

// quantile is that of a histogram, by labels.
func quantile(q, name, selector string, by ...string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket{%s}[$__rate_interval])))", q, strings.Join(append(by, "le"), ", "), name, selector)
}

// asRules are the expressions of the panels as a file of rules, with a range in place of Grafana's.
func asRules(boards []dashboard) string {
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboards\n    rules:\n")
	n := 0
	for _, board := range boards {
		for _, r := range board.rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					n++
					fmt.Fprintf(&b, "      - {record: 'dashboard:query:%d', expr: '%s'}\n", n, strings.ReplaceAll(strings.ReplaceAll(q.expr, "$__rate_interval", "5m"), "'", "''"))
				}
			}
		}
	}
	return b.String()
}
