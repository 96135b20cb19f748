package terminal

import (
	"fmt"
	"net"
	"strings"

	"strandline.dev/internal/transport"
)

// CheckNodeName keeps names to what is the same on every terminal.
func CheckNodeName(name string) error {
	const known = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if name == "" || len(name) > 63 || strings.Trim(name, known) != "" {
		return fmt.Errorf("node name %q: 1 to 63 characters out of a-z A-Z 0-9 . _ -", name)
	}
	return nil
}

// CheckReachable refuses an address that nobody could connect to, and one
// beyond this machine unless that is wanted.
func CheckReachable(address string, insecure bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT: %w", address, err)
	}
	if port == "0" || port == "" || transport.IsWildcard(host) {
		return fmt.Errorf("nobody can connect to %s: others need a host and a port that stay", address)
	}
	if insecure || transport.IsLoopback(host) {
		return nil
	}
	return Hinted(
		fmt.Errorf("address %s is beyond this machine, and nothing is encrypted or checked yet", address),
		"to use it all the same: --insecure",
	)
}
