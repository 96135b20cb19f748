// Package secure is what stands between a socket and a protocol: TLS 1.3 with
// certificates from files that may change at any time, who the other side is, and what a
// connection may cost before that is known.
//
// Begin with Credentials, what the files hold, and Gate, which makes the listeners of a
// node. A node proves who it is to another one by its certificate: Prove. Rules about
// who may do what are not made here.
package secure
