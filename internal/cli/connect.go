package cli

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

const (
	defaultGRPCAddress = "127.0.0.1:7171"
	defaultHTTPAddress = "127.0.0.1:7271"

	// retryTime bridges a server that is just starting or a change of leader,
	// but a person who forgot the server should hear so at once.
	retryTime = 2 * time.Second

	// completionTime is how long a shell may hang on the tab key.
	completionTime = 300 * time.Millisecond
)

// connect prepares a client for the servers named by the flags.
func (c *cli) connect(more ...client.Option) (*client.Client, error) {
	connection, err := client.Dial(c.servers, append(c.clientOptions(), more...)...)
	return connection, c.explainDial(err)
}

func (c *cli) clientOptions() []client.Option {
	options := []client.Option{client.WithRetryTime(retryTime)}
	if c.insecure {
		options = append(options, client.WithInsecure())
	}
	return options
}

// explainDial says in words of the command line that an address was refused;
// dialing has no other way to fail.
func (c *cli) explainDial(err error) error {
	if err == nil {
		return nil
	}
	for _, server := range c.servers {
		if _, _, split := net.SplitHostPort(server); split != nil {
			return usageError{fmt.Errorf("--server %s is not HOST:PORT", server), "strandline"}
		}
	}
	return hintedError{
		usageError{fmt.Errorf("--server %s is not on this machine", strings.Join(c.servers, ",")), "strandline"},
		beyondHint,
	}
}

const beyondHint = "to use a server beyond this machine, although nothing is encrypted yet: --insecure"

// suggest is a command to type next, with what it needs to find the same
// servers.
func (c *cli) suggest(command string) string {
	suggestion := invocation() + " " + command + serverFlag(c.servers...)
	if c.insecure {
		suggestion += " --insecure"
	}
	return suggestion
}

// withAdmin calls do with the verbs of a connected client.
func (c *cli) withAdmin(do func(*client.Admin) error) error {
	connection, err := c.connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	return do(connection.Admin())
}

// withChange is withAdmin for a command that changes something: the catalog may
// wait for its majority, and the command then says that it waits.
func (c *cli) withChange(do func(*client.Admin) error) error {
	waiting := &waitNotice{cli: c}
	defer waiting.stop()
	waiting.trouble("", errNoAnswer)
	return c.withAdmin(do)
}

// completeLog lists the logs of the server for the shell. It is silent when
// that does not work.
func (c *cli) completeLog(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || c.applySettings(command) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []cobra.Completion
	_ = c.withAdmin(func(admin *client.Admin) error {
		logs, err := admin.ListLogs(ctx, false)
		for _, log := range logs {
			names = append(names, log.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeNode lists the nodes of the cluster for the shell, as completeLog does
// logs.
func (c *cli) completeNode(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c.applySettings(command) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []cobra.Completion
	_ = c.withAdmin(func(admin *client.Admin) error {
		status, err := admin.ClusterStatus(ctx)
		for _, node := range status.Nodes {
			names = append(names, cobra.CompletionWithDesc(node.Name, node.Address))
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFirst offers what complete knows as the first argument only.
func completeFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, args, word)
	}
}
