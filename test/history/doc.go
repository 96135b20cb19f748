// Package history is a record of what the clients of a log did and were answered.
// docs/history.md describes the format; package judge holds the rules against it.
//
// It knows nothing of the servers, and imports none of our rooms: a checker
// that shares code with what it checks shares its mistakes.
//
// Event (event.go) is one line of a history. A Recorder (recorder.go) writes them, a
// Reader (reader.go) reads them.
package history
