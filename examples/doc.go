// Package examples has small programs that keep their state in a log, and the test
// that kills them and the server they use. See README.md.
package examples
