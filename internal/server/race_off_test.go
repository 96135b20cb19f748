//go:build !race

package server

const underRaceDetector = false
