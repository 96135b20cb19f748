package terminal

import (
	"fmt"
	"net"

	"strandline.dev/internal/identity"
	"strandline.dev/internal/transport"
)

// CheckNodeName keeps names to what is the same on every terminal and in certificates.
func CheckNodeName(name string) error {
	if err := identity.CheckName(name); err != nil {
		return fmt.Errorf("node %w", err)
	}
	return nil
}

// CheckReachable refuses an address that no client could connect to, and one beyond this
// machine, with a hint what to do, unless connections there are encrypted, or need not be.
func CheckReachable(address string, anywhere bool, hint string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT: %w", address, err)
	}
	if port == "0" || port == "" || transport.IsWildcard(host) {
		return fmt.Errorf("clients cannot connect to %s: give a host, and a port other than 0", address)
	}
	if anywhere || transport.IsLoopback(host) {
		return nil
	}
	return Hinted(fmt.Errorf("address %s is on another machine, and without certificates nothing is encrypted or verified", address), hint)
}
