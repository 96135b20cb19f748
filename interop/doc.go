// Package interop holds tests of Kafka's real clients against real nodes; see
// README.md.
package interop
