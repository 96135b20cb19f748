//go:build !race

package node

const underRaceDetector = false
