// Package tidy holds the house rules that matter enough to be tests: which
// room may import which, and that the generated code stays generated.
package tidy
