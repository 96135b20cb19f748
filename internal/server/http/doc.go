// Package httpserver serves what operators look at: metrics, health and, on
// request, profiles.
package httpserver
