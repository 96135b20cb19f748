// Package history is a record of what the clients of a log did and were told,
// and the rules that such a record has to obey whatever the servers went
// through. docs/history.md describes the format and each rule.
//
// It knows nothing of the servers, and imports none of our rooms: a checker
// that shares code with what it checks shares its mistakes.
//
// Start with Event (event.go), one line of a history. A Recorder (recorder.go)
// writes them, a Reader (reader.go) reads them, a Checker (checker.go) takes
// them one by one. Each rule has a file of its own, rule_*.go; rule.go lists
// them. What the rules share is in book.go: which record is at which offset,
// and who said so.
package history
