// Package server runs a whole node: it opens the node, serves gRPC, the nodes' own
// traffic, Kafka and HTTP on the listeners it is given, and stops all of them in the
// order that loses nothing. Below it is one folder for each protocol.
//
// It changes nothing of the process: the runtime's settings, signals and the default
// logger belong to the program.
package server
