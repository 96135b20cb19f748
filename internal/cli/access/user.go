package access

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewUser makes the command user.
func NewUser(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "user",
		Short: "Add and remove users with passwords, for Kafka's clients",
		Long: `Add and remove users with passwords, with which Kafka's clients authenticate (SASL).
A user that has a certificate or a token needs neither a password nor these commands.
"strandline grant" sets the rights of a user.`,
		Example: `  strandline user add alice
  strandline user whoami`,
	}, newUserAdd(c), newUserRemove(c), newUserList(c), newUserWhoAmI(c))
}

func newUserAdd(c *terminal.Terminal) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user with a password, or change the password",
		Long: `Add a user with a password, or change the password. Without --password-file a password
is generated and printed, only once: the cluster keeps only what SCRAM needs to verify it.
Open connections stay open.`,
		Example: `  strandline user add alice
  strandline user add alice --password-file alice.password`,
		Args:              terminal.Named("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			var password string
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return fmt.Errorf("--password-file: %w", err)
				}
				if password = strings.TrimRight(string(text), "\r\n"); password == "" {
					return terminal.Misused(command, "--password-file %s is empty", file)
				}
			}
			return c.WithChange(func(admin *client.Admin) error {
				made, existed, err := admin.Access().PutUser(command.Context(), args[0], password)
				if err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Name     string `json:"name"`
					Password string `json:"password,omitempty"`
					Existed  bool   `json:"existed"`
				}{args[0], made, existed}
				return c.Show(object, func(out io.Writer) {
					if made != "" {
						fmt.Fprintln(out, made)
						return
					}
					fmt.Fprintf(out, "%s %s has the password in %s\n", map[bool]string{true: "user", false: "new user"}[existed], args[0], file)
				})
			})
		},
	}
	command.Flags().StringVar(&file, "password-file", "", "the `file` with the password, 8 to 256 bytes")
	return command
}

func newUserRemove(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user's password, tokens, grants and quota",
		Long: `Remove a user's password, tokens, grants and quota. All nodes refuse the user within a second. A
certificate of the user stays valid until it expires, and has no rights.`,
		Example:           "  strandline user remove alice",
		Args:              terminal.Named("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.Access().RemoveUser(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					Name    string `json:"name"`
					Removed bool   `json:"removed"`
				}{args[0], true}
				return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, "removed user %s\n", args[0]) })
			})
		},
	}
}

func newUserList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the users with passwords",
		Long:              "List the users that have a password.",
		Example:           "  strandline user list",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, err := admin.Access().ListUsers(command.Context())
				if err != nil {
					return err
				}
				type user struct {
					Name    string    `json:"name"`
					Created time.Time `json:"created"`
				}
				object := struct {
					Users []user `json:"users"`
				}{[]user{}}
				for _, u := range all {
					object.Users = append(object.Users, user(u))
				}
				return c.Show(object, func(out io.Writer) {
					table(out, "NAME\tCREATED", len(all), func(i int) []any {
						return []any{all[i].Name, all[i].Created.UTC().Format(time.RFC3339)}
					})
				})
			})
		},
	}
}

func newUserWhoAmI(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:               "whoami",
		Short:             "Show your principal, as the cluster authenticates you",
		Long:              "Show your principal, as the cluster authenticates you by your certificate or token.",
		Example:           "  strandline user whoami --token-file alice.token",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				me, err := admin.Access().WhoAmI(command.Context())
				if err != nil {
					return err
				}
				object := struct {
					Principal string `json:"principal,omitempty"`
					TokenID   string `json:"token_id,omitempty"`
					Enforced  bool   `json:"enforced"`
				}{me.Principal, me.TokenID, me.Enforced}
				return c.Show(object, func(out io.Writer) {
					terminal.Fields(out, "principal", cmp.Or(me.Principal, "anonymous"), "token", cmp.Or(me.TokenID, "none"), "rights enforced", me.Enforced)
				})
			})
		},
	}
}
