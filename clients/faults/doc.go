// Package faults is a server that stands in front of the nodes of a cluster and makes
// the faults that a client has to survive: a connection that is cut before or after an
// answer, a refusal, a request or an answer that comes twice, a node that is slow, silent
// or not to be reached. It counts what clients do, too.
//
// Between a client and a node lie a TCP link (test/proxy) and a gRPC server that forwards
// each message as it is, but for the addresses of nodes, which become its own. What the
// client reads and appends is in a real log. Start with Server (server.go); rule.go says
// which faults there are, append.go and forward.go carry them out.
package faults
