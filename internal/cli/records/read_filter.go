package records

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// filterFlags are which records to read, and what of them.
type filterFlags struct {
	where      string
	keys       []string
	prefixes   []string
	headers    []string
	skipFailed bool
	only       parts
}

func (f *filterFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.where, "where", "", "read the records for which this CEL `expression` is true")
	flags.StringArrayVar(&f.keys, "key", nil, "read the records with this `key`, or one of several")
	flags.StringArrayVar(&f.prefixes, "key-prefix", nil, "read the records whose key begins with this `text`, or one of several")
	flags.StringArrayVar(&f.headers, "header", nil, "read the records with this header, as `NAME=VALUE`, and with all others given")
	flags.BoolVar(&f.skipFailed, "skip-failed", false, "skip the records on which --where fails, and report them, instead of ending with an error")
	flags.Var(&f.only, "only", "parts to read and print: key, value, headers, offset, timestamp, value:BYTES, value.FIELD")
}

// given reports whether records are selected.
func (f *filterFlags) given() bool {
	return f.where != "" || len(f.keys)+len(f.prefixes)+len(f.headers) > 0
}

// options are those of a reader.
func (f *filterFlags) options(c *terminal.Terminal, command *cobra.Command) ([]client.ReaderOption, error) {
	var o []client.ReaderOption
	if f.skipFailed && f.where == "" {
		return nil, terminal.Useless(command, "without --where", "skip-failed")
	}
	if f.given() {
		filter := client.Filter{Where: f.where, Keys: bytesOfEach(f.keys), KeyPrefixes: bytesOfEach(f.prefixes)}
		for _, h := range f.headers {
			name, value, ok := strings.Cut(h, "=")
			if !ok {
				return nil, terminal.Misused(command, "--header must be NAME=VALUE, not %s", h)
			}
			filter.Headers = append(filter.Headers, client.Header{Key: name, Value: []byte(value)})
		}
		if f.skipFailed {
			filter.OnFailed = func(offset int64, why string) {
				fmt.Fprintf(c.Err, "strandline: left out the record at offset %d: %s\n", offset, why)
			}
		}
		o = append(o, client.WithFilter(filter))
	}
	if p := f.only.projection; f.only.names != nil {
		o = append(o, client.WithProjection(p))
	}
	return o, nil
}

func bytesOfEach(all []string) [][]byte {
	var each [][]byte
	for _, s := range all {
		each = append(each, []byte(s))
	}
	return each
}

// explain shows where an expression is wrong.
func (f *filterFlags) explain(err error) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Reason != client.ErrFilterInvalid.Reason {
		return err
	}
	lines := strings.Split(f.where, "\n")
	if e.Line < 1 || e.Line > len(lines) || e.Column < 1 {
		return err
	}
	line := []rune(strings.ReplaceAll(lines[e.Line-1], "\t", " "))
	return terminal.Hinted(err, string(line)+"\n"+strings.Repeat(" ", min(e.Column-1, len(line)))+"^")
}

// parts is the flag of what is read of each record.
type parts struct {
	text       string
	names      []string // in the order that they are printed in; nil: not given
	projection client.Projection
}

func (p *parts) Set(text string) error {
	made := parts{text: text, projection: client.Projection{DropKey: true, DropValue: true, DropHeaders: true}}
	for name := range strings.SplitSeq(text, ",") {
		part, field, isField := strings.Cut(name, ".")
		_, count, isCount := strings.Cut(name, ":")
		switch {
		case name == "offset" || name == "timestamp":
		case name == "key":
			made.projection.DropKey = false
		case name == "headers":
			made.projection.DropHeaders = false
		case name == "value":
			made.projection.DropValue = false
		case isField && part == "value" && field != "":
			made.projection.DropValue = false
			made.projection.JSONFields = append(made.projection.JSONFields, field)
			name = "value"
		case isCount && strings.HasPrefix(name, "value:"):
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil || n < 1 {
				return errors.New("value: needs a number of bytes, 1 or more")
			}
			made.projection.DropValue, made.projection.ValueBytes = false, n
			name = "value"
		default:
			return errors.New("must be key, value, headers, offset, timestamp, value:BYTES or value.FIELD, separated by commas")
		}
		if !slices.Contains(made.names, name) {
			made.names = append(made.names, name)
		}
	}
	*p = made
	return nil
}

func (p *parts) String() string { return p.text }

func (*parts) Type() string { return "parts" }

// columnSink writes parts of records as text, with tabs between them.
type columnSink struct {
	textSink
	names []string
}

func (s columnSink) records(records []client.Record) error {
	for i := range records {
		for k, name := range s.names {
			if k > 0 {
				if err := s.out.WriteByte('\t'); err != nil {
					return err
				}
			}
			if err := writePart(s.out, &records[i], name); err != nil {
				return err
			}
		}
		if err := s.out.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}

func writePart(out *bufio.Writer, r *client.Record, name string) error {
	text := r.Value
	switch name {
	case "key":
		text = r.Key
	case "offset":
		text = strconv.AppendInt(nil, r.Offset, 10)
	case "timestamp":
		text = r.Timestamp.UTC().AppendFormat(nil, time.RFC3339Nano)
	case "headers":
		text = nil
		for i, h := range r.Headers {
			if i > 0 {
				text = append(text, ' ')
			}
			text = append(append(append(text, h.Key...), '='), h.Value...)
		}
	}
	_, err := out.Write(text)
	return err
}
