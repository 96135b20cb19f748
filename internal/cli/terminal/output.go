package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Show prints a result: as one JSON object a line, or for people.
func (c *Terminal) Show(object any, text func(out io.Writer)) error {
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(object)
	}
	text(c.Out)
	return nil
}

// Fields prints names and values, one pair a line, aligned.
func Fields(out io.Writer, pairs ...any) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(columns, "%v\t%v\n", pairs[i], pairs[i+1])
	}
	columns.Flush()
}

// Counted is a number of things, in words that fit it.
func Counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// OrUnknown returns s, or "unknown" if it is empty.
func OrUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Printable quotes what is not plain text: it is somebody else's, and for a terminal.
func Printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}
