//go:build !unix

package rpc

import "net"

func newReadyReader(*net.TCPConn) *readyReader { return nil }
