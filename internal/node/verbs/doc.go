// Package verbs is what may be asked of a node about logs: Appends, Reads, Sessions,
// Holds, Describer, LogAdmin, TopicAdmin, Statuses, Transfers, Rights. Finder finds the log that
// a verb is for, and Awaiter waits until the nodes have done what was decided.
package verbs
