package peer

import (
	"net"
	"time"
)

// tune sets what a connection between nodes needs of TCP. The kernel's buffers
// are left to its autotuning, which alone can fill a long link. What fails
// here costs latency, not correctness.
func tune(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	for !ok {
		wrapped, is := conn.(interface{ NetConn() net.Conn })
		if !is {
			return
		}
		conn = wrapped.NetConn()
		tcp, ok = conn.(*net.TCPConn)
	}
	_ = tcp.SetNoDelay(true)
	// Pings find a dead peer sooner; this is for one that is not read from.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3})
	tuneKernel(tcp)
}
