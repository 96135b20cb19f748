package log

import (
	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newLogInfo(c *terminal.Terminal) *cobra.Command {
	return c.OneLog(&cobra.Command{
		Use:   "info LOG",
		Short: "Show where a log starts and ends, and how it is kept",
		Long: `Show what is known of a log. Offsets are half-open: of [10, 25), the first
record is 10 and the next append gets 25.`,
		Example: "  strandline log info orders\n  strandline log info orders --json | jq .end_offset",
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				info, err := admin.Info(command.Context(), args[0])
				if err != nil {
					return err
				}
				return showLog(c, info)
			})
		},
	})
}
