package peer

import "net"

// Split sorts the connections of one port.
func Split(l net.Listener) (peers, others net.Listener) { return nil, nil }
