// Package guard stands between the servers of the protocols and the node: it knows who
// calls, refuses what they have no right to, calls the node's verb, and writes what
// changed something and what was refused into the audit log.
//
// The servers know no node but the Guard, and it has no verb without a row in its table: a verb
// that a server asks for and the Guard lacks does not compile. Begin with the table in verbs.go and
// with Holder, who calls.
package guard
