//go:build race

package server

// The race detector keeps 5 to 10 bytes for each byte of the program, and slows
// it down as much.
const underRaceDetector = true
