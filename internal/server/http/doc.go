// Package httpserver serves what operators look at, metrics, health and, on request, profiles; and the
// calls of strandline.v1 as JSON. Its api files have the latter.
package httpserver
