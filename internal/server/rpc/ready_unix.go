//go:build unix

package rpc

import (
	"net"
	"syscall"
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
