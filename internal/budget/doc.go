// Package budget divides a node's memory among the things that grow with what
// clients do. Each kind has its own part, so that nothing waits for memory which
// another kind holds: readers who do not keep up stop no append. What happens where
// a part is used up is in docs/limits.md.
package budget
