package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

const (
	// unackedMillis is how long the kernel keeps sending into nothing, also
	// after the connection was closed.
	unackedMillis = 5000
	// unsentBytes is how much the kernel holds beyond what is on its way: no
	// urgent message can overtake what is in there. It does not bound the bytes
	// on their way, so a link of high latency is filled nevertheless.
	unsentBytes = 1 << 20
)

func tuneKernel(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unackedMillis)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
