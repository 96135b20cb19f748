package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/server"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/secure"
)

func (s *serveSettings) encrypted() bool { return s.files != (secure.Files{}) }

// anywhere reports whether other nodes may be beyond this machine.
func (s *serveSettings) anywhere() bool { return s.Insecure || s.encrypted() }

// checkFiles refuses a part of what a node needs.
func (s *serveSettings) checkFiles() error {
	f := s.files
	if s.encrypted() && (f.Authority == "" || f.Certificate == "" || f.Key == "") {
		return errors.New("encryption needs all of --tls-ca, --tls-cert and --tls-key; --client-ca needs these three too")
	}
	return nil
}

// secured reports whether other machines can reach this node, and clients must authenticate.
func (s *serveSettings) secured() bool {
	others := func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err == nil && !transport.IsLoopback(host)
	}
	return s.files.Clients != "" && !s.Insecure && slices.ContainsFunc([]string{s.grpc, s.kafka, s.http, s.Node.GRPCAddress, s.Node.KafkaAddress}, others)
}

func (s *serveSettings) checkAdministrator() error {
	if name, ok := strings.CutPrefix(s.administrator, "user/"); !ok || identity.CheckName(name) != nil {
		return fmt.Errorf("--administrator %s: write user/NAME", s.administrator)
	}
	return nil
}

// checkListen refuses an address that others can reach, unless they have to say who
// they are, or need not.
func (s *serveSettings) checkListen(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("listen on %q: %w", address, err)
	}
	return s.checkWhoComes("listen on", address)
}

// checkAdvertised is checkListen for the addresses that others are given, by whatever
// way they lead here.
func (s *serveSettings) checkAdvertised() error {
	for _, address := range []string{s.Node.GRPCAddress, s.Node.KafkaAddress} {
		if err := s.checkWhoComes("be reached at", address); address != "" && err != nil {
			return err
		}
	}
	return nil
}

// checkWhoComes refuses an address at which anybody is let in.
func (s *serveSettings) checkWhoComes(what, address string) error {
	host, _, _ := net.SplitHostPort(address)
	switch {
	case s.Insecure || transport.IsLoopback(host) || s.files.Clients != "":
		return nil
	case s.encrypted():
		return terminal.Hinted(fmt.Errorf("%s %s: other machines can reach this address, and any client could connect", what, address),
			"to require a certificate of each client: --client-ca "+s.files.Authority+"\nto allow every client, for tests only: --insecure")
	}
	return terminal.Hinted(fmt.Errorf("%s %s: other machines can reach this address, and without certificates any client could read and change everything", what, address), s.howToSecure(address))
}

// checkReachable refuses an address of a node that no client could connect to, or not
// without certificates.
func (s *serveSettings) checkReachable(address string) error {
	return terminal.CheckReachable(address, s.anywhere(), s.howToSecure(s.grpc))
}

// howToSecure are the commands that make what is missing, for a node that listens at an
// address.
func (s *serveSettings) howToSecure(listens string) string {
	host, name, me := "", s.Node.Name, terminal.Invocation()
	for _, address := range []string{s.Node.GRPCAddress, s.Node.Peers[name], listens} {
		known, _, _ := net.SplitHostPort(address)
		if host == "" && !transport.IsWildcard(known) && !transport.IsLoopback(known) {
			host = known
		}
	}
	host = cmp.Or(host, "HOST")
	return strings.Join([]string{
		"to make certificates, once for the cluster: " + me + " certs ca",
		"for this node: " + me + " certs node " + name + " --host " + host,
		"for a user: " + me + " certs user NAME",
		"and then: --tls-ca certs/ca.crt --tls-cert certs/node-" + name + ".crt --tls-key certs/node-" + name + ".key --client-ca certs/ca.crt",
		"in a laboratory, without any of that: --insecure",
	}, "\n")
}

// secure reads the files, and says what is not protected.
func (s *serveSettings) secure() (err error) {
	if s.encrypted() {
		if s.Credentials, err = secure.OpenNode(s.Node.Name, s.files, s.Node.Logger); err != nil {
			return err
		}
	}
	if s.Insecure {
		s.Node.Logger.Warn("--insecure: connections need not be encrypted, and whoever reaches this node can read and change everything")
	}
	return nil
}

// reloadOnHangup reads the certificates and opens the audit log again on SIGHUP, until ctx
// ends.
func reloadOnHangup(ctx context.Context, c *secure.Credentials, n *server.Server, logger *slog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if err := n.ReopenAuditLog(); err != nil {
				logger.Error("the audit log continues in the file that it had", "error", err)
			}
			if c == nil {
				continue
			}
			if err := c.Reload(); err != nil {
				logger.Error("certificates cannot be read again; those that were read before stay in force", "error", err)
				continue
			}
			logger.Info("certificates were read again")
		}
	}
}
