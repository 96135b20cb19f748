package access

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

// NewToken makes the command token.
func NewToken(c *terminal.Terminal) *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "token",
		Short: "Make and revoke tokens with which clients act for users",
		Long: `Make and revoke tokens with which clients act for users, over gRPC and HTTP. A token has
an id, expires, and may have fewer rights than its user. Tokens of "cluster token" are
different: new nodes join with them.`,
		Example: `  strandline token create alice --expires 90d > alice.token
  strandline read orders --token-file alice.token`,
	}, newTokenCreate(c), newTokenRevoke(c), newTokenList(c))
}

// token is one as it is shown.
type token struct {
	Token     string    `json:"token,omitempty"`
	ID        string    `json:"id"`
	Principal string    `json:"principal"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
	Scope     []scope   `json:"scope,omitempty"`
}

type scope struct {
	Object string   `json:"object"`
	Rights []string `json:"rights"`
}

func shown(t client.AccessToken, text string) token {
	out := token{Token: text, ID: t.ID, Principal: t.Principal, Created: t.Created, Expires: t.Expires}
	for _, s := range t.Scope {
		out.Scope = append(out.Scope, scope(s))
	}
	return out
}

func newTokenCreate(c *terminal.Terminal) *cobra.Command {
	lifetime, limits := terminal.Duration(30*24*time.Hour), []string(nil)
	command := &cobra.Command{
		Use:   "create USER",
		Short: "Make a token with which a client acts for a user",
		Long: `Make a token with which a client acts for a user, and print it. It is shown only once: the
cluster keeps only its hash. The user need not have a password or a certificate. With
--scope the token has only these rights, as far as the user has them.
` + objectHelp,
		Example: `  strandline token create alice --expires 90d > alice.token
  strandline token create ci --expires 1h --scope append=log/builds --scope read='log/audit-*'`,
		Args:              terminal.Named("USER"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			var within []client.Scope
			for _, one := range limits {
				rights, object, ok := strings.Cut(one, "=")
				if !ok {
					return terminal.Misused(command, "--scope must be RIGHTS=OBJECT, not %s", one)
				}
				within = append(within, client.Scope{Object: object, Rights: strings.Split(rights, "+")})
			}
			return c.WithChange(func(admin *client.Admin) error {
				text, t, err := admin.Access().CreateAccessToken(command.Context(), args[0], time.Duration(lifetime), within...)
				if err != nil {
					return terminal.Changing(err)
				}
				return c.Show(shown(t, text), func(out io.Writer) { fmt.Fprintln(out, text) })
			})
		},
	}
	command.Flags().Var(&lifetime, "expires", "how long it is valid, at most 366d")
	command.Flags().StringSliceVar(&limits, "scope", nil, "`RIGHTS=OBJECT` that it may use, with + between rights; may be given several times (default: all rights of the user)")
	return command
}

func newTokenRevoke(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Make a token invalid",
		Long: `Make a token invalid. All nodes refuse it within a second, also in streams that are
open.`,
		Example:           "  strandline token revoke k5w2nq7xhd3a",
		Args:              terminal.Named("ID"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			return c.WithChange(func(admin *client.Admin) error {
				if err := admin.Access().RevokeAccessToken(command.Context(), args[0]); err != nil {
					return terminal.Changing(err)
				}
				object := struct {
					ID      string `json:"id"`
					Revoked bool   `json:"revoked"`
				}{args[0], true}
				return c.Show(object, func(out io.Writer) { fmt.Fprintf(out, "revoked token %s\n", args[0]) })
			})
		},
	}
}

func newTokenList(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the tokens that are valid",
		Long:              "List the valid tokens, without their secrets, which are not stored.",
		Example:           "  strandline token list",
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return c.WithAdmin(func(admin *client.Admin) error {
				all, err := admin.Access().ListAccessTokens(command.Context())
				if err != nil {
					return err
				}
				tokens := []token{}
				for _, t := range all {
					tokens = append(tokens, shown(t, ""))
				}
				object := struct {
					Tokens []token `json:"tokens"`
				}{tokens}
				return c.Show(object, func(out io.Writer) {
					table(out, "ID\tPRINCIPAL\tEXPIRES\tSCOPE", len(tokens), func(i int) []any {
						limits := "all"
						if t := tokens[i]; len(t.Scope) > 0 {
							limits = ""
							for _, s := range t.Scope {
								limits += strings.Join(s.Rights, "+") + "=" + s.Object + " "
							}
						}
						return []any{tokens[i].ID, tokens[i].Principal, tokens[i].Expires.UTC().Format(time.RFC3339), strings.TrimSpace(limits)}
					})
				})
			})
		},
	}
}
