package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
)

// NewReady makes the command ready.
func NewReady(c *terminal.Terminal) *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "ready",
		Short: "Ask a node on this machine whether it serves all its logs",
		Long: `Ask a node whether it serves all its logs, by /readyz of its HTTP port. The exit code
is 0 if it does and 1 if it does not. It is the health check of the image. The command
presents no token and no certificate and does not check that of the node, since the port is
on this machine.`,
		Example: "  strandline ready\n  strandline ready --http 127.0.0.1:7281",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			said, err := askReady(command.Context(), address, c.Encrypted())
			if err != nil {
				return err
			}
			return c.Show(map[string]bool{"ready": true}, func(out io.Writer) { fmt.Fprintln(out, said) })
		},
	}
	command.Flags().StringVar(&address, "http", terminal.DefaultHTTPAddress, "`address` of the node's HTTP port, on this machine")
	return command
}

const (
	readyTime      = 5 * time.Second
	maxReadyAnswer = 4 << 10
)

// askReady returns what a node that is ready says, and the reason of one that is not as an error.
func askReady(ctx context.Context, address string, encrypted bool) (string, error) {
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	// The certificate names the address that others use. Nothing that is secret is sent or answered.
	asking := http.Client{Timeout: readyTime, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/readyz", nil)
	if err != nil {
		return "", err
	}
	answer, err := asking.Do(request)
	if err != nil {
		if errors.As(err, new(*net.OpError)) {
			err = terminal.Unreachable(err)
		}
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReadyAnswer))
	if err != nil {
		return "", err
	}
	if said := strings.TrimSpace(string(text)); answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s is not ready: %s", address, said)
	}
	return "ok", nil
}
