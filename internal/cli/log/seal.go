package log

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogSeal(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "seal LOG",
		Short: "Seal a log permanently: it accepts no more appends",
		Long: `Seal a log permanently: from then on, appends and new sessions are refused with SEALED.
Records stay, and can be read and trimmed. All records are below the end that is shown: a
reader that has reached it has all of them. A log with durability memory cannot be sealed.

Only "cluster recover" undoes a seal, if it continues the log from a replica that lacks it.`,
		Example: `  strandline log seal orders`,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				start, end, err := admin.Seal(command.Context(), args[0])
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log         string `json:"log"`
					StartOffset int64  `json:"start_offset"`
					EndOffset   int64  `json:"end_offset"`
				}{args[0], start, end}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "log %s is sealed at [%d, %d)\n", args[0], start, end)
				})
			})
		},
	})
}
