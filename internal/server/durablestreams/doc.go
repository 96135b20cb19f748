// Package durablestreams serves the read side of the Durable Streams protocol on logs: catch-up,
// long poll and server-sent events. request.go decodes requests and record.go encodes answers,
// without I/O; handler.go reads the log.
package durablestreams
