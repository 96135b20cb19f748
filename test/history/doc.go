// Package history records the calls of a log's clients and their answers. docs/history.md describes
// the format; package judge checks the rules.
//
// It knows nothing about the servers, and imports none of our packages: a checker that shares code
// with the checked program shares its mistakes.
//
// Event (event.go) is one line of a history. A Recorder (recorder.go) writes them, a
// Reader (reader.go) reads them.
package history
