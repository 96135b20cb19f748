// Package durablestreams serves the read side of the Durable Streams protocol on logs: catch-up, long poll and
// server-sent events. What a request asks for and how its answer is written is decided in request.go and record.go,
// without I/O; handler.go reads the log.
package durablestreams
