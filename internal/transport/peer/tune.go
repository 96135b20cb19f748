package peer

import (
	"net"
	"time"
)

// tune sets the TCP options of a connection between nodes. It leaves the buffers of the kernel to
// its autotuning, which alone can fill a long link. A failure costs latency, not correctness.
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
	// Pings detect a dead node sooner; this is for a connection that is not read.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3})
	tuneKernel(tcp)
}
