package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Writer writes rows in one form. Close writes what is still held back; a run
// that was interrupted is closed like any other.
type Writer interface {
	Environment(Environment) error
	Row(Row) error
	Close() error
}

// JSON writes one object a line, each as soon as it is known.
func JSON(out io.Writer) Writer { return jsonWriter{json.NewEncoder(out)} }

type jsonWriter struct{ encoder *json.Encoder }

func (w jsonWriter) Environment(e Environment) error { return w.Row(e.Row()) }
func (w jsonWriter) Row(r Row) error                 { return w.encoder.Encode(r) }
func (w jsonWriter) Close() error                    { return nil }

// CSV writes a header line before the first row, and again, after an empty
// line, whenever rows of another shape follow. The environment is left out: a
// spreadsheet wants figures.
func CSV(out io.Writer) Writer { return &csvWriter{out: out, csv: csv.NewWriter(out)} }

type csvWriter struct {
	out   io.Writer
	csv   *csv.Writer
	names []string
}

func (w *csvWriter) Environment(Environment) error { return nil }

func (w *csvWriter) Row(r Row) error {
	if names := r.names(); !slices.Equal(names, w.names) {
		if w.names != nil {
			if _, err := io.WriteString(w.out, "\n"); err != nil {
				return err
			}
		}
		w.names = names
		if err := w.csv.Write(names); err != nil {
			return err
		}
	}
	if err := w.csv.Write(r.values()); err != nil {
		return err
	}
	w.csv.Flush()
	return w.csv.Error()
}

func (w *csvWriter) Close() error { return nil }

// Table writes aligned columns. Rows of one shape form a table, which is
// written when rows of another shape follow or at the end.
func Table(out io.Writer) Writer { return &tableWriter{out: out} }

type tableWriter struct {
	out  io.Writer
	rows []Row // all of one shape, not written yet
}

func (w *tableWriter) Environment(e Environment) error {
	_, err := fmt.Fprintf(w.out, "%s\n", e)
	return err
}

func (w *tableWriter) Row(r Row) error {
	if len(w.rows) > 0 && !slices.Equal(w.rows[0].names(), r.names()) {
		if err := w.Close(); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, r)
	return nil
}

func (w *tableWriter) Close() error {
	if len(w.rows) == 0 {
		return nil
	}
	columns := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	names := w.rows[0].names()
	if _, ok := w.rows[0].bar(); ok {
		names = append(names, "0 %"+strings.Repeat(" ", barWidth-8)+"100 %")
	}
	fmt.Fprintln(columns, strings.Join(names, "\t"))
	for _, r := range w.rows {
		cells := r.values()
		if drawn, ok := r.bar(); ok {
			cells = append(cells, drawn)
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	w.rows = nil
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w.out, "\n")
	return err
}

// Nowhere is a Writer that throws everything away.
type Nowhere struct{}

func (Nowhere) Environment(Environment) error { return nil }
func (Nowhere) Row(Row) error                 { return nil }
func (Nowhere) Close() error                  { return nil }

// Both writes everything to two writers.
func Both(a, b Writer) Writer { return both{a, b} }

type both [2]Writer

func (w both) Environment(e Environment) error {
	return w.each(func(w Writer) error { return w.Environment(e) })
}
func (w both) Row(r Row) error { return w.each(func(w Writer) error { return w.Row(r) }) }
func (w both) Close() error    { return w.each(Writer.Close) }

func (w both) each(do func(Writer) error) error {
	for _, one := range w {
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}
