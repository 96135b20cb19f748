package log

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogTrim(c *terminal.Terminal) *cobra.Command {
	var (
		before      int64
		fastForward bool
	)
	command := c.OneLog(&cobra.Command{
		Use:   "trim LOG --before OFFSET",
		Short: "Delete every record below an offset permanently",
		Long: `Delete every record below an offset permanently. Their space is freed in whole
segments. An offset beyond the end is refused, unless --fast-forward is given: then
the log continues there, to move a running system from another log.`,
		Example: `  strandline log trim orders --before 1000
  strandline log trim orders --before 5000000 --fast-forward`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := terminal.NotNegative(command, "before"); err != nil {
				return err
			}
			return c.WithChange(func(admin *client.Admin) error {
				start, end, err := admin.Trim(command.Context(), args[0], before, fastForward)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Log         string `json:"log"`
					StartOffset int64  `json:"start_offset"`
					EndOffset   int64  `json:"end_offset"`
				}{args[0], start, end}
				return c.Show(object, func(out io.Writer) {
					fmt.Fprintf(out, "log %s is now [%d, %d)\n", args[0], start, end)
				})
			})
		},
	})
	command.Flags().Int64Var(&before, "before", 0, "the new start: every record with a lower `offset` is deleted")
	command.Flags().BoolVar(&fastForward, "fast-forward", false, "allow an offset beyond the end")
	_ = command.MarkFlagRequired("before")
	return command
}
