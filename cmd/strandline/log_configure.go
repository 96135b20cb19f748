package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/client"
)

func newLogConfigure(c *cli) *cobra.Command {
	var (
		age    duration
		bytes  size
		fenced bool
	)
	command := c.oneLog(&cobra.Command{
		Use:   "configure LOG",
		Short: "Change how long a log keeps its records, and who may append",
		Long: `Change how long a log keeps its records, and who may append. What is not given
stays as it is; a limit of 0 is lifted. What the new limits do not cover is
trimmed within seconds.

With --fenced, appends without a writer term are refused once a term has been
acquired: "strandline writer acquire". Without it they are not fenced.`,
		Example: `  strandline log configure orders --retention 7d
  strandline log configure orders --retention 0s --retention-bytes 100GiB
  strandline log configure orders --fenced`,
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
				if command.Flags().Changed("fenced") {
					config.Fenced = fenced
				}
				if info, err = admin.ConfigureLog(command.Context(), args[0], config); err != nil {
					return changing(err)
				}
				return c.showLog(info)
			})
		},
	})
	retentionFlags(command.Flags(), &age, &bytes)
	command.Flags().BoolVar(&fenced, "fenced", false, fencedHelp)
	command.MarkFlagsOneRequired("retention", "retention-bytes", "fenced")
	return command
}

const fencedHelp = "refuse appends without a writer term, once one has been acquired"

func retentionFlags(flags *pflag.FlagSet, age *duration, bytes *size) {
	flags.Var(age, "retention", "trim records older than this, such as 1m or 7d; 0: never")
	flags.Var(bytes, "retention-bytes", "trim the oldest records beyond this, such as 10GiB; 0: never")
}
