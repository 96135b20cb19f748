// Package transport is what every connection shares: what the host of an address stands
// for, and of which kind a new connection is. Below it are the kinds.
package transport

import "net"

// IsWildcard reports whether a host means all interfaces.
func IsWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// IsLoopback reports whether only this machine reaches a host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
