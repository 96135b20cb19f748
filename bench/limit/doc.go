// Package limit measures what the machine can do at best, with as little code
// in the way as possible: the cost of a sync, reading files, TCP, plain gRPC.
// A benchmark of the log means something only beside these figures, measured
// in the same run.
//
// The far end of every socket measurement is a process of its own, started by
// Peer, because a real server is one too.
package limit
