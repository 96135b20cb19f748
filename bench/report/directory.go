package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"strandline.dev/bench/limit"
)

// A directory of results holds
//
//	results.jsonl     everything, a line at a time, as it became known
//	latency/*.hgrm    latencies, as HdrHistogram's tools read them
//	result.csv        every single run; written by Summarize, as all below
//	result.json       the environment, the rows, the runs and the curves
//	report.html       one page that needs nothing else
//	charts/*.svg      its charts
const (
	resultsFile  = "results.jsonl"
	latencyFiles = "latency"
)

// Directory writes results as they become known. Whatever ends the run, what
// was known until then is there.
type Directory struct {
	path    string
	file    *os.File
	encoder *json.Encoder
}

// line is one line of results.jsonl: one of these is there.
type line struct {
	Environment Row    `json:"environment,omitempty"`
	Row         Row    `json:"row,omitempty"`
	Run         Row    `json:"run,omitempty"`
	Curve       *Curve `json:"curve,omitempty"`
}

// Curve is a line of a chart that is no column of a table.
type Curve struct {
	Benchmark string       `json:"benchmark"`
	Kind      CurveKind    `json:"kind"`
	Group     string       `json:"group"` // curves of one group share a chart
	Name      string       `json:"name"`
	Points    [][2]float64 `json:"points"`
	Events    []Mark       `json:"events,omitempty"`
}

// Mark is an event on a curve's x axis.
type Mark struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// CurveKind says what a curve's axes are.
type CurveKind string

const (
	// Percentiles: the share in percent, and microseconds.
	Percentiles CurveKind = "percentiles"
	// OverTime: seconds, and microseconds.
	OverTime CurveKind = "over_time"
)

// OpenDirectory makes the directory if it is not there, and adds to what is. Of
// what is measured again, charts show the newest; tables and files have it all.
func OpenDirectory(path string) (*Directory, error) {
	if err := os.MkdirAll(filepath.Join(path, latencyFiles), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(path, resultsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &Directory{path: path, file: file, encoder: json.NewEncoder(file)}, nil
}

// Path is where the directory is.
func (d *Directory) Path() string { return d.path }

// Environment implements Writer.
func (d *Directory) Environment(e Environment) error {
	return d.encoder.Encode(line{Environment: e.Row()})
}

// Row implements Writer.
func (d *Directory) Row(r Row) error { return d.encoder.Encode(line{Row: r}) }

// Run keeps a single run, of which Row is to have the median.
func (d *Directory) Run(r Row) error { return d.encoder.Encode(line{Run: r}) }

// Curve keeps a line of a chart.
func (d *Directory) Curve(c Curve) error { return d.encoder.Encode(line{Curve: &c}) }

// curvePoints are the percentiles of a curve.
var curvePoints = []float64{1, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 100}

// LatencyCurve keeps a histogram of latencies as a line of a chart.
func (d *Directory) LatencyCurve(benchmark, group, name string, h *hdrhistogram.Histogram) error {
	if h.TotalCount() == 0 {
		return nil
	}
	c := Curve{Benchmark: benchmark, Kind: Percentiles, Group: group, Name: name}
	for _, q := range curvePoints {
		c.Points = append(c.Points, [2]float64{q, limit.Microseconds(h, q)})
	}
	return d.Curve(c)
}

// Latency keeps a histogram of latencies as a file for HdrHistogram's tools, in
// microseconds.
func (d *Directory) Latency(benchmark, group, name string, h *hdrhistogram.Histogram) error {
	if h.TotalCount() == 0 {
		return nil
	}
	base := fileName(benchmark + " " + group + " " + name)
	const longest = 200 // file systems take 255; the names of targets and options are people's own
	base = base[:min(len(base), longest)]
	file, err := createNext(filepath.Join(d.path, latencyFiles, base), ".hgrm")
	if err != nil {
		return err
	}
	const ticksPerHalf, nsPerUs = 5, 1000
	_, err = h.PercentilesPrint(file, ticksPerHalf, nsPerUs)
	return errors.Join(err, file.Close())
}

// createNext makes a file that is not there: of those that differ by a number
// alone, the next. Another process may do the same in the same directory.
func createNext(base, extension string) (*os.File, error) {
	path := base + extension
	for n := 2; ; n++ {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		path = base + "-" + strconv.Itoa(n) + extension
	}
}

// fileName keeps of a name what is safe in a file's.
func fileName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.')
	})
	return strings.Join(words, "-")
}

// Close implements Writer.
func (d *Directory) Close() error { return d.file.Close() }

// Results is what a directory holds.
type Results struct {
	Environments []Row   `json:"environments"`
	Rows         []Row   `json:"rows"`
	Runs         []Row   `json:"runs"`
	Curves       []Curve `json:"curves"`
}

// ReadDirectory reads what Directory wrote. A last line that was cut off, by a
// run that was killed, is left out.
func ReadDirectory(path string) (Results, error) {
	var all Results
	file, err := os.Open(filepath.Join(path, resultsFile))
	if err != nil {
		return all, err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return all, fmt.Errorf("%s, line %d: %w", file.Name(), number, err)
		}
		switch {
		case l.Environment != nil:
			all.Environments = append(all.Environments, l.Environment)
		case l.Row != nil:
			all.Rows = append(all.Rows, l.Row)
		case l.Run != nil:
			all.Runs = append(all.Runs, l.Run)
		case l.Curve != nil:
			all.Curves = append(all.Curves, *l.Curve)
		}
	}
}

// CSV writes every single run as one table: its columns are all that any run
// has, and what a run has not stays empty.
func (r Results) CSV(out io.Writer) error {
	var names []string
	for _, run := range r.Runs {
		for _, f := range run {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	w := csv.NewWriter(out)
	if err := w.Write(names); err != nil {
		return err
	}
	for _, run := range r.Runs {
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = run.Text(name)
		}
		if err := w.Write(values); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
