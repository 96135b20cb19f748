//go:build !linux

package peer

import "net"

func tuneKernel(*net.TCPConn) {}
