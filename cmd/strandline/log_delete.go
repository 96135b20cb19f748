package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

func newLogDelete(c *cli) *cobra.Command {
	return c.oneLog(&cobra.Command{
		Use:     "delete LOG",
		Short:   "Delete a log with all its records",
		Example: "  strandline log delete orders",
		RunE: func(command *cobra.Command, args []string) error {
			return c.withChange(func(admin *client.Admin) error {
				if err := admin.DeleteLog(command.Context(), args[0]); err != nil {
					return changing(err)
				}
				object := struct {
					Log     string `json:"log"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return c.show(object, func(out io.Writer) {
					fmt.Fprintf(out, "deleted log %s\n", args[0])
				})
			})
		},
	})
}
