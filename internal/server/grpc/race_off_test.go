//go:build !race

package grpcdoor

const underRaceDetector = false
