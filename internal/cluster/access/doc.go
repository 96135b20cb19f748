// Package access decides the rights of principals, from the users, tokens and grants in the
// catalog. Like the rest of internal/cluster it does no I/O and reads no clock.
//
// List is the state in the catalog; Rules is a List prepared for decisions.
package access
