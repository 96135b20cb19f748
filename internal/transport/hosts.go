// Package transport holds what all kinds of connections share: the meaning of the host of an
// address, and the detection of the kind of a new connection. Its subpackages are the kinds.
package transport

import "net"

// IsWildcard reports whether host means all interfaces.
func IsWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// IsLoopback reports whether host can be reached from this machine only.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
