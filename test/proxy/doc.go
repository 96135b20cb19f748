// Package proxy is a TCP link that tests and benchmarks can make slow, silent
// one way, or broken: it needs no privileges and no kernel module, and works
// between processes that know nothing of it.
//
// It forwards bytes between those who connect to it and one target. It knows
// no protocol. Proxy (proxy.go) is what is turned; a connection is two lines,
// one each way, and line.go is where bytes wait.
package proxy
