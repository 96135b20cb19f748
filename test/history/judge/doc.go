// Package judge checks a history against the rules that every history must obey. docs/history.md
// describes each rule.
//
// A Checker (checker.go) takes the events one by one. Each rule has a separate file, rule_*.go;
// rule.go lists them. book.go has the state that the rules share: the record at each offset, and
// the answers that show it.
package judge
