//go:build unix

package rpc

import (
	"net"
	"syscall"

	"strandline.dev/internal/transport/lean"
)

func newReadyReader(socket *net.TCPConn) *readyReader {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	r := &readyReader{raw: raw}
	r.try = func(socket uintptr) bool {
		buffer := r.pool.Get(r.size)
		n, err := syscall.Read(int(socket), *buffer)
		for err == syscall.EINTR {
			n, err = syscall.Read(int(socket), *buffer)
		}
		if n <= 0 {
			r.pool.Put(buffer)
			r.n, r.err = 0, err
			return err != syscall.EAGAIN
		}
		r.buffer, r.n, r.err = buffer, n, nil
		return true
	}
	return r
}

func tryWriter(socket *net.TCPConn) lean.TryWrite {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	var (
		left    []byte
		n       int
		failure error
	)
	// Made once: it would be allocated for each write.
	try := func(socket uintptr) bool {
		for n, failure = syscall.Write(int(socket), left); failure == syscall.EINTR; {
			n, failure = syscall.Write(int(socket), left)
		}
		return true
	}
	return func(data []byte) (int, error) {
		left = data
		if err := raw.Write(try); err != nil {
			return 0, err
		}
		left = nil
		if failure == syscall.EAGAIN {
			return 0, nil
		}
		return max(n, 0), failure
	}
}
