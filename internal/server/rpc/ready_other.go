//go:build !unix

package rpc

import (
	"net"

	"strandline.dev/internal/transport/lean"
)

func newReadyReader(*net.TCPConn) *readyReader { return nil }

func tryWriter(*net.TCPConn) lean.TryWrite { return nil }
