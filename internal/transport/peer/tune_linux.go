package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

const (
	// unackedMillis is how long the kernel keeps sending without acknowledgments, also after the
	// connection was closed.
	unackedMillis = 5000
	// unsentBytes is the limit on the bytes that the kernel holds and has not sent: no urgent
	// message can overtake them. It does not limit the bytes in flight, so a link of high latency
	// is still filled.
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
