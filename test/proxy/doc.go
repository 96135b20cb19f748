// Package proxy implements a TCP proxy that tests and benchmarks can make slow, silent one way, or
// broken. It needs no privileges and no kernel module, and is transparent for the processes that it
// connects.
//
// It forwards bytes between its clients and one target. It knows no protocol. Proxy (proxy.go) has
// the controls. A connection is two lines, one in each direction; line.go holds waiting bytes.
package proxy
