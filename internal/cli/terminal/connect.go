package terminal

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/transport/secure"
)

const (
	// defaultData is where a node keeps its logs unless it is set.
	DefaultData        = "strandline-data"
	DefaultGRPCAddress = "127.0.0.1:7171"
	DefaultHTTPAddress = "127.0.0.1:7271"

	// retryTime bridges a server that is just starting or a change of leader,
	// but a person who forgot --server should get the error at once.
	retryTime = 2 * time.Second

	// completionTime is how long a shell may hang on the tab key.
	completionTime = 300 * time.Millisecond
)

// Connect prepares a client for the servers named by the flags.
func (c *Terminal) Connect(more ...client.Option) (*client.Client, error) {
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	shown := client.WithToken(token)
	if c.TokenFile != "" && token != "" {
		// A command that runs for long continues when the file is replaced.
		shown = client.WithTokenFile(c.TokenFile)
	}
	connection, err := client.Dial(c.Servers, append(append(c.clientOptions(), shown), more...)...)
	return connection, c.explainDial(err)
}

// Token reads the token that the client shows. It is in a file, or in the environment
// as such, and no flag: the flags of a process can be seen by others.
func (c *Terminal) Token() (string, error) {
	if c.TokenFile == "" {
		for _, entry := range c.Environ {
			if token, ok := strings.CutPrefix(entry, TokenVariable+"="); ok {
				return strings.TrimSpace(token), nil
			}
		}
		return "", nil
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// TokenVariable is the variable of the environment that may hold a token.
const TokenVariable = "STRANDLINE_TOKEN"

func (c *Terminal) clientOptions() []client.Option {
	options := []client.Option{client.WithRetryTime(retryTime)}
	if c.Insecure {
		options = append(options, client.WithInsecure())
	}
	if c.Encrypted() {
		options = append(options, client.WithCertificates(c.Files.Authority, c.Files.Certificate, c.Files.Key))
	}
	return options
}

// Encrypted reports whether connections are encrypted.
func (c *Terminal) Encrypted() bool { return c.Files != (secure.Files{}) }

// explainDial says in words of the command line that an address or the files of
// certificates were refused; dialing has no other way to fail.
func (c *Terminal) explainDial(err error) error {
	if err == nil {
		return nil
	}
	for _, server := range c.Servers {
		if _, _, split := net.SplitHostPort(server); split != nil {
			return usageError{fmt.Errorf("--server %s is not HOST:PORT", server), "strandline"}
		}
	}
	if c.Encrypted() {
		return usageError{fmt.Errorf("--tls-ca, --tls-cert and --tls-key: %w", err), "strandline"}
	}
	return hintedError{
		usageError{fmt.Errorf("--server %s is not on this machine", strings.Join(c.Servers, ",")), "strandline"},
		BeyondHint,
	}
}

const BeyondHint = "with certificates, of \"strandline certs\" or others: --tls-ca FILE --tls-cert FILE --tls-key FILE\nin a laboratory, where all may be read and changed on the way: --insecure"

// WithAdmin calls do with the verbs of a connected client.
func (c *Terminal) WithAdmin(do func(*client.Admin) error) error {
	connection, err := c.Connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	return do(connection.Admin())
}

// WithChange is withAdmin for a command that changes something: the catalog may
// wait for its majority, and the command then says that it waits.
func (c *Terminal) WithChange(do func(*client.Admin) error) error {
	return c.Answered(func() error { return c.WithAdmin(do) })
}

// Answered calls do, which asks the cluster something, and says that the command waits if that takes long.
func (c *Terminal) Answered(do func() error) error {
	waiting := c.NewWaitNotice()
	defer waiting.Stop()
	waiting.Trouble("", ErrNoAnswer)
	return do()
}

// CompleteLog lists the logs of the server for the shell. It is silent when
// that does not work.
func (c *Terminal) CompleteLog(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || c.ApplySettings(command) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []cobra.Completion
	_ = c.WithAdmin(func(admin *client.Admin) error {
		logs, err := admin.ListLogs(ctx, false)
		for _, log := range logs {
			names = append(names, log.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteGroup lists the consumer groups of the cluster for the shell, as CompleteLog does logs.
func (c *Terminal) CompleteGroup(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || c.ApplySettings(command) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []cobra.Completion
	_ = c.WithAdmin(func(admin *client.Admin) error {
		groups, err := admin.ListGroups(ctx)
		for _, g := range groups {
			names = append(names, cobra.CompletionWithDesc(g.Group, g.State))
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteNode lists the nodes of the cluster for the shell, as completeLog does
// logs.
func (c *Terminal) CompleteNode(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c.ApplySettings(command) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []cobra.Completion
	_ = c.WithAdmin(func(admin *client.Admin) error {
		status, err := admin.ClusterStatus(ctx)
		for _, node := range status.Nodes {
			names = append(names, cobra.CompletionWithDesc(node.Name, node.Address))
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteFirst offers what complete knows as the first argument only.
func CompleteFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, args, word)
	}
}
