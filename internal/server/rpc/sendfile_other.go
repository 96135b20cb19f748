//go:build !linux

package rpc

import (
	"net"

	"strandline.dev/internal/transport/lean"
)

func fileSender(*net.TCPConn) lean.SendFile { return nil }
