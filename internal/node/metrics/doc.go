// Package metrics counts what happens on a node.
package metrics
