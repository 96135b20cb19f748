package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/client"
)

func newLogConfigure(c *cli) *cobra.Command {
	var (
		age   duration
		bytes size
	)
	command := c.oneLog(&cobra.Command{
		Use:   "configure LOG",
		Short: "Change how long a log keeps its records",
		Long: `Change how long a log keeps its records. What is not given stays as it is; 0
means that this limit is lifted. What the new limits do not cover is trimmed
within seconds.`,
		Example: `  strandline log configure orders --retention 7d
  strandline log configure orders --retention 0s --retention-bytes 100GiB`,
		RunE: func(command *cobra.Command, args []string) error {
			return c.withChange(func(admin *client.Admin) error {
				info, err := admin.Info(command.Context(), args[0])
				if err != nil {
					return err
				}
				config := info.Config
				if command.Flags().Changed("retention") {
					config.Retention = time.Duration(age)
				}
				if command.Flags().Changed("retention-bytes") {
					config.RetentionBytes = int64(bytes)
				}
				if info, err = admin.ConfigureLog(command.Context(), args[0], config); err != nil {
					return changing(err)
				}
				return c.showLog(info)
			})
		},
	})
	retentionFlags(command.Flags(), &age, &bytes)
	command.MarkFlagsOneRequired("retention", "retention-bytes")
	return command
}

func retentionFlags(flags *pflag.FlagSet, age *duration, bytes *size) {
	flags.Var(age, "retention", "trim records older than this, such as 1m or 7d; 0: never")
	flags.Var(bytes, "retention-bytes", "trim the oldest records beyond this, such as 10GiB; 0: never")
}
