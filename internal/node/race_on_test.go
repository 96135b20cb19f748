//go:build race

package node

// The race detector slows down a million appends tenfold.
const underRaceDetector = true
