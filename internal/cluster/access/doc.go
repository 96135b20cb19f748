// Package access decides who may do what: users, tokens and grants as the catalog has
// them, and the rights that follow. Like the rest of internal/cluster it does no I/O and
// reads no clock.
//
// Begin with List, what the catalog knows, and Rules, which answer for it.
package access
