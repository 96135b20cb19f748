// Package secure implements the layer between a socket and a protocol: TLS 1.3 with certificates
// from files that may change at any time, the identity of the other side, and the limits on the
// cost of a connection before that identity is known.
//
// Begin with Credentials, which holds the contents of the files, and Gate, which makes the
// listeners of a node. A node authenticates to another node by its certificate; see Gate.Prove.
// The rights of principals are not part of this package.
package secure
