// Package verbs implements the operations on logs that a node offers: Appends, Reads, Sessions,
// Holds, Describer, LogAdmin, TopicAdmin, Statuses, Transfers, Rights. Finder finds the log of a
// verb, and Awaiter waits until the nodes have applied a decision.
package verbs
