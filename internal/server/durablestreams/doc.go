// Package durablestreams serves the Durable Streams protocol on logs. Each record of a stream's log has
// a note, a header that holds what the protocol needs to know. stream.go folds the notes into the state
// of the stream, write.go decides writes on that state, request.go decodes reads, and record.go encodes
// answers, all without I/O. folded.go keeps the folds of a node up to date; handler.go, reading.go and
// writing.go read and append.
package durablestreams
