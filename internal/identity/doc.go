// Package identity is who is at the other end of a connection: the principals of a
// cluster, the name that a certificate gives to each, and an authority that issues such
// certificates for those who have none of their own.
//
// It opens no file and no connection. Begin with Principal.
package identity
