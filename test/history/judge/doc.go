// Package judge holds the rules that a history has to obey, whatever the servers went
// through, against one. docs/history.md describes each.
//
// A Checker (checker.go) takes the events one by one. Each rule has a file of its own,
// rule_*.go; rule.go lists them. What the rules share is in book.go: which record is at
// which offset, and who said so.
package judge
