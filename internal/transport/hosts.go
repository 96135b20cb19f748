// Package transport is what every connection shares: what the host of an address stands
// for. Below it are the two kinds, between nodes and of clients.
package transport

import "net"

// IsWildcard reports whether a host stands for all interfaces.
func IsWildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// IsLoopback reports whether only this machine reaches a host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
