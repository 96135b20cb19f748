//go:build !race

package segment_test

const sparse = 1
