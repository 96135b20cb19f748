package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// show prints a result: as one JSON object a line, or for people.
func (c *cli) show(object any, text func(out io.Writer)) error {
	if c.json {
		return json.NewEncoder(c.out).Encode(object)
	}
	text(c.out)
	return nil
}

// fields prints names and values, one pair a line, aligned.
func fields(out io.Writer, pairs ...any) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(columns, "%v\t%v\n", pairs[i], pairs[i+1])
	}
	columns.Flush()
}
