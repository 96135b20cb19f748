package records

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewWriter makes the command writer.
func NewWriter(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:     "writer",
		Short:   "Acquire the writer term of a log",
		Example: "  strandline writer acquire orders",
	},
		newWriterAcquire(c),
	)
}

func newWriterAcquire(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "acquire LOG",
		Short: "Become the writer of a log: appends of older terms are refused",
		Long: `Raise the writer term of a log and print it. Appends that carry an older term
are refused from then on; those of an older writer that got in lie below the
end shown. Appends without a term are not fenced, unless the log is: "strandline
log configure --fenced".`,
		Example: `  strandline writer acquire orders
  strandline append orders --writer-term 3 < lines.txt`,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				term, end, err := admin.AcquireWriter(command.Context(), args[0])
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log        string `json:"log"`
					WriterTerm uint64 `json:"writer_term"`
					EndOffset  int64  `json:"end_offset"`
				}{args[0], term, end}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "writer term %d of log %s, from offset %d on\n", term, args[0], end)
				})
			})
		},
	})
}
