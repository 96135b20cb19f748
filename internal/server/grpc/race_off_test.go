//go:build !race

package grpcserver

const underRaceDetector = false
