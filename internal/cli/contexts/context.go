// Package contexts is the commands about a user's clusters: context.
package contexts

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
)

// New makes the command context.
func New(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "context",
		Short: "Manage contexts, which hold the flags for reaching a cluster",
		Long: `A context has a name and holds the flags for reaching a cluster. Contexts are stored in your
own configuration directory. With a context in use, commands need no --server, --tls-ca,
--tls-cert, --tls-key, --token-file or --insecure. Flags, the environment and --config
take precedence over a context, and "serve" and "dev" ignore contexts. A command whose
servers are set in another way ignores the context in use, so that no token is sent to
another cluster; --context with --server uses the rest of the context. A context does not
contain a token, only the path of its file.`,
		Example: `  strandline context create prod --server db1:7171,db2:7171 --tls-ca ca.pem --token-file me.token
  strandline context use prod
  strandline log list --context staging`,
	}, newCreate(c), newUse(c), newList(c), newDelete(c))
}

func newCreate(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "create NAME",
		Short:   "Save the given flags as a context, in place of one of the same name",
		Example: "  strandline context create local --server 127.0.0.1:7171,127.0.0.1:7172,127.0.0.1:7173",
		Args:    terminal.Named("NAME"),
		RunE: func(command *cobra.Command, args []string) error {
			settings := map[string]any{}
			given := command.Flags().Changed
			if given("server") {
				settings["server"] = c.Servers
			}
			if given("insecure") {
				settings["insecure"] = c.Insecure
			}
			for name, path := range map[string]string{
				"tls-ca": c.Files.Authority, "tls-cert": c.Files.Certificate, "tls-key": c.Files.Key, "token-file": c.TokenFile,
			} {
				if !given(name) {
					continue
				}
				// It is used from other directories.
				whole, err := filepath.Abs(path)
				if err != nil {
					return err
				}
				settings[name] = whole
			}
			if len(settings) == 0 {
				return terminal.Misused(command, "give the flags of the context, such as --server")
			}
			all, err := c.Contexts()
			if err != nil {
				return err
			}
			return all.Create(args[0], settings)
		},
	}
}

func newUse(c *terminal.Terminal) *cobra.Command {
	var none bool
	command := &cobra.Command{
		Use:   "use [NAME]",
		Short: "Select the context to use",
		Example: `  strandline context use prod
  strandline context use --none`,
		ValidArgsFunction: complete(c),
		Args:              cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if none == (len(args) == 1) {
				return terminal.Misused(command, "give NAME, or --none")
			}
			all, err := c.Contexts()
			if err != nil {
				return err
			}
			if none {
				return all.Use("")
			}
			return all.Use(args[0])
		},
	}
	command.Flags().BoolVar(&none, "none", false, "use no context")
	return command
}

// context is one as it is listed.
type context struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
}

func newList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List all contexts, and mark the one in use",
		Example: "  strandline context list --json",
		Args:    terminal.Named(),
		RunE: func(*cobra.Command, []string) error {
			all, err := c.Contexts()
			if err != nil {
				return err
			}
			names, err := all.Names()
			if err != nil {
				return err
			}
			current, err := all.Current()
			if err != nil {
				return err
			}
			list := []context{}
			for _, name := range names {
				list = append(list, context{name, name == current})
			}
			return c.Show(list, func(out io.Writer) {
				columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				for _, one := range list {
					mark := ""
					if one.Current {
						mark = "in use"
					}
					fmt.Fprintf(columns, "%s\t%s\n", one.Name, mark)
				}
				columns.Flush()
			})
		},
	}
}

func newDelete(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a context",
		Example:           "  strandline context delete staging",
		ValidArgsFunction: complete(c),
		Args:              terminal.Named("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := c.Contexts()
			if err != nil {
				return err
			}
			return all.Delete(args[0])
		},
	}
}

func complete(c *terminal.Terminal) cobra.CompletionFunc {
	return terminal.CompleteFirst(func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []cobra.Completion
		if all, err := c.Contexts(); err == nil {
			names, _ = all.Names()
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}
