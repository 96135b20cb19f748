// Package verbs is what may be asked of a node about logs: appends, reads, sessions, describer,
// logAdmin, topics, statuses, transfers. finder finds the log that a verb is for.
package verbs
