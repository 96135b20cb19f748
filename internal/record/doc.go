// Package record holds the nouns of the log: offsets, records, batches (the
// Kafka record batch format v2), the entry that carries batches through
// consensus, the commands that are entries too, the limits, and the refusals
// every verb can answer with.
//
// It does no I/O, starts no goroutine and imports nothing else of ours. Start
// with Batch (batch.go) and Entry (entry.go).
package record
