package report

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// table is rows of one shape.
type table struct {
	Title string
	Names []string
	Cells [][]string
}

// tables puts rows of the same kind and shape together, in the order in which
// each kind came first. A column in which all rows say the same stays: it is
// what the figures depend on.
func (r Results) tables() []table {
	var all []table
	index := map[string]int{}
	for _, row := range r.Rows {
		if len(row) == 0 {
			continue
		}
		names := row.names()[1:]
		if row[0].Name == "limit" { // each limit has columns of its own
			names = row.names()
		}
		title := tableTitle(row[0].Name, format(row[0].Value))
		key := title + strings.Join(names, " ")
		i, known := index[key]
		if !known {
			i, index[key] = len(all), len(all)
			all = append(all, table{Title: title, Names: names})
		}
		all[i].Cells = append(all[i].Cells, row.values()[len(row)-len(names):])
	}
	return all
}

// failures are what went wrong, a line each. They are above everything else, so that
// a reader can find the reason for a missing row.
func (r Results) failures() []string {
	var all []string
	for _, row := range r.Rows {
		if len(row) > 0 && row[0].Name == failed {
			said := slices.DeleteFunc(row.values(), func(s string) bool { return s == "" })
			all = append(all, strings.Join(said[:len(said)-1], ", ")+": "+said[len(said)-1])
		}
	}
	return all
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML writes the page: one file that needs nothing else.
func (r Results) HTML(out io.Writer) error {
	type drawing struct {
		Title string
		SVG   template.HTML
	}
	var drawings []drawing
	for _, d := range r.Drawings() {
		drawings = append(drawings, drawing{d.Title, template.HTML(d.SVG)}) // made by us, every text in it escaped
	}
	return page.Execute(out, map[string]any{
		"Verdict": r.verdict(), "Environments": r.environments(), "Failures": r.failures(), "Drawings": drawings, "Tables": r.tables(), "Runs": len(r.Runs), "VerdictNote": verdictNote,
	})
}

// environments are the lines that stand above everything, each once.
func (r Results) environments() [][]string {
	var all [][]string
	for _, e := range r.Environments {
		for _, f := range e {
			pair := []string{f.Name, format(f.Value)}
			same := slices.ContainsFunc(all, func(have []string) bool { return slices.Equal(have, pair) })
			if pair[1] != "" && !same && !strings.HasPrefix(f.Name, "fdatasync") {
				all = append(all, pair)
			}
		}
		p50, ok := e.Number("fdatasync_2kib_p50_us")
		if ok && len(all) > 0 && !slices.ContainsFunc(all, func(have []string) bool { return have[0] == "fsync floor" }) {
			all = append(all, []string{"fsync floor", fmt.Sprintf("write + fdatasync of 2 KiB: p50 %s us, p99 %s us", format(p50), e.Text("fdatasync_2kib_p99_us"))})
		}
	}
	return all
}

// Markdown writes the tables and charts as a document. The charts are to lie
// in the directory called charts, seen from the document.
func (r Results) Markdown(out io.Writer, introduction, charts string) error {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n")
	for _, pair := range r.environments() {
		fmt.Fprintf(&b, "- %s: %s\n", pair[0], pair[1])
	}
	for _, line := range r.failures() {
		fmt.Fprintf(&b, "- failed: %s\n", line)
	}
	if v := r.verdict(); len(v.Cells) > 0 {
		b.WriteString("\n## Verdict\n\n" + verdictNote + "\n")
		v.markdown(&b)
	}
	b.WriteString("\n## Charts\n\n")
	for _, d := range r.Drawings() {
		fmt.Fprintf(&b, "![%s](%s/%s)\n\n", d.Title, charts, d.File)
	}
	b.WriteString("## Tables\n")
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n### %s\n", t.Title)
		t.markdown(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// verdictNote says how the verdict is to be read.
const verdictNote = "Each system with the client that reached most. \"failed\": the measurement gave no figure; \"-\": not measured. A figure of one run is that run, of several their median."

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(t.Names, " | "), strings.Repeat("---|", len(t.Names)))
	for _, cells := range t.Cells {
		fmt.Fprintf(b, "| %s |\n", strings.ReplaceAll(strings.Join(cells, " | "), "\n", " "))
	}
}

// Summarize reads a directory of results and writes into it what people and
// spreadsheets read. It returns the path of the page.
func Summarize(directory string) (string, error) {
	r, err := ReadDirectory(directory)
	if err != nil {
		return "", err
	}
	path := filepath.Join(directory, "report.html")
	return path, errors.Join(
		writeFile(path, r.HTML),
		writeFile(filepath.Join(directory, "result.csv"), r.CSV),
		writeFile(filepath.Join(directory, "result.json"), func(out io.Writer) error {
			e := json.NewEncoder(out)
			e.SetIndent("", " ")
			return e.Encode(r)
		}),
		r.WriteCharts(filepath.Join(directory, "charts")))
}

// WriteCharts writes every chart as a file of its own.
func (r Results) WriteCharts(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, d := range r.Drawings() {
		if err := os.WriteFile(filepath.Join(directory, d.File), []byte(d.SVG), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
