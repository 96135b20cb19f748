// Package certs is the commands that make the certificates of a cluster, for those who
// have no authority of their own. They work on files and ask no server.
package certs

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/identity"
)

const (
	defaultDir     = "certs"
	defaultCluster = "strandline"
	// early is how long before now certificates are valid: clocks differ.
	early = time.Hour

	authorityLife = 3650 * 24 * time.Hour
	memberLife    = 365 * 24 * time.Hour
)

// New makes the command certs.
func New(c *terminal.Terminal) *cobra.Command {
	members := []*cobra.Command{newAuthority(c), newNode(c), newUser(c)}
	return terminal.Group(&cobra.Command{
		Use:   "certs",
		Short: "Make certificates for nodes and users",
		Long: `Make an authority and the certificates of a cluster: one for each node, which presents it
to clients and to other nodes, and one for each user. A certificate names one principal, as
a URI among its subject alternative names. A certificate of another authority works too if
it contains one of these URIs:

  strandline://CLUSTER/node/NAME
  strandline://CLUSTER/user/NAME

The files are PEM. Only your user can read the keys. Whoever has ca.key can make new
members: keep it away from the nodes. Existing files are not overwritten; to replace a
certificate, move the old one away first.`,
		Example: "  strandline certs ca\n  strandline certs node a --host 10.0.0.1\n  strandline certs user alice",
	}, members...)
}

// made is what a command has written.
type made struct {
	Principal   string    `json:"principal,omitempty"`
	Cluster     string    `json:"cluster"`
	Certificate string    `json:"certificate"`
	Key         string    `json:"key"`
	Expires     time.Time `json:"expires"`
}

func (m made) show(c *terminal.Terminal, next string) error {
	return c.Show(m, func(out io.Writer) {
		terminal.Fields(out, "certificate", m.Certificate, "key", m.Key, "expires", m.Expires.Format(time.DateOnly))
		if next != "" {
			fmt.Fprintf(out, "\n%s\n", next)
		}
	})
}

func newAuthority(c *terminal.Terminal) *cobra.Command {
	cluster, dir, valid := defaultCluster, defaultDir, terminal.Duration(authorityLife)
	command := &cobra.Command{
		Use:   "ca",
		Short: "Make the authority of a cluster",
		Long: `Make the authority that certifies the nodes and users of one cluster: ca.crt, which
every node and client needs, and ca.key, which only the next two commands need.`,
		Example: `  strandline certs ca
  strandline certs ca --cluster prod --dir prod-certs`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := identity.CheckCluster(cluster); err != nil {
				return terminal.Misused(command, "--cluster: %w", err)
			}
			period := validFor(valid)
			pair, err := identity.NewAuthority(cluster, period)
			if err != nil {
				return err
			}
			m, err := save(dir, "ca", pair)
			if err != nil {
				return err
			}
			m.Cluster = cluster
			return m.show(c, fmt.Sprintf("Next: %s certs node NAME --host ADDRESS%s", terminal.Invocation(), dirFlag(dir)))
		},
	}
	flags := command.Flags()
	flags.StringVar(&cluster, "cluster", cluster, "`name` of the cluster in its certificates")
	commonFlags(command, flags, &dir, &valid)
	return command
}

func newNode(c *terminal.Terminal) *cobra.Command {
	var hosts []string
	dir, valid := defaultDir, terminal.Duration(memberLife)
	command := &cobra.Command{
		Use:   "node NAME",
		Short: "Make the certificate of a node",
		Long: `Make the certificate of the node that serves under NAME (serve --node-name), as
node-NAME.crt and node-NAME.key. Clients accept the certificate for each --host: name all
hosts under which they reach the node. localhost, 127.0.0.1 and ::1 are always included.`,
		Example:           "  strandline certs node a --host 10.0.0.1 --host a.example.org",
		Args:              terminal.Named("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			return issue(c, command, identity.Principal{Kind: identity.Node, Name: args[0]}, dir, func(a *identity.Authority) (identity.Pair, error) {
				return a.Node(args[0], append([]string{"localhost", "127.0.0.1", "::1"}, hosts...), validFor(valid))
			})
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&hosts, "host", nil, "`hosts` under which clients reach the node: names or IP addresses, without a port")
	commonFlags(command, flags, &dir, &valid)
	return command
}

func newUser(c *terminal.Terminal) *cobra.Command {
	dir, valid := defaultDir, terminal.Duration(memberLife)
	command := &cobra.Command{
		Use:   "user NAME",
		Short: "Make the certificate of a user",
		Long: `Make the certificate of a person or a program that uses the cluster, as user-NAME.crt
and user-NAME.key. A server cannot use it.`,
		Example:           "  strandline certs user alice",
		Args:              terminal.Named("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			return issue(c, command, identity.Principal{Kind: identity.User, Name: args[0]}, dir, func(a *identity.Authority) (identity.Pair, error) {
				return a.User(args[0], validFor(valid))
			})
		},
	}
	commonFlags(command, command.Flags(), &dir, &valid)
	return command
}

func commonFlags(command *cobra.Command, flags *pflag.FlagSet, dir *string, valid *terminal.Duration) {
	flags.StringVar(dir, "dir", *dir, "`directory` of the certificates; it is created if it does not exist")
	flags.Var(valid, "valid", "how long the certificate is valid, at most as long as its authority")
	_ = command.MarkFlagDirname("dir")
}

// issue has the authority of a directory certify a principal.
func issue(c *terminal.Terminal, command *cobra.Command, p identity.Principal, dir string, by func(*identity.Authority) (identity.Pair, error)) error {
	if err := identity.CheckName(p.Name); err != nil {
		return terminal.Misused(command, "%w", err)
	}
	authority, err := open(dir)
	if err != nil {
		return err
	}
	pair, err := by(authority)
	if err != nil {
		return err
	}
	m, err := save(dir, string(p.Kind)+"-"+p.Name, pair)
	if err != nil {
		return err
	}
	m.Principal, m.Cluster = p.String(), authority.Cluster()
	return m.show(c, "")
}

func validFor(life terminal.Duration) identity.Period {
	now := time.Now()
	return identity.Period{From: now.Add(-early), To: now.Add(time.Duration(life))}
}

// dirFlag is what a suggested command needs to find the same directory.
func dirFlag(dir string) string {
	if filepath.Clean(dir) == defaultDir {
		return ""
	}
	return " --dir " + dir
}
