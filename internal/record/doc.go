// Package record defines the data types of the log: offsets, records, batches (Kafka's record
// batch format v2), the entries that carry batches through consensus, the commands, which are
// entries too, the limits, and the refusals that every verb can return.
//
// It does no I/O, starts no goroutine and imports no other package of this module. Start with
// Batch (batch.go) and Entry (entry.go).
package record
