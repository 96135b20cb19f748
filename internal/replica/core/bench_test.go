package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/sequence"
)

// BenchmarkAppend is an append of one small record to a log of one replica in memory,
// from the request to the answer.
func BenchmarkAppend(b *testing.B) {
	t := &testing.T{}
	bench := newBench(t)
	bench.unchecked = true
	bench.settle()
	request := values(t, "a record of some thirty bytes..")
	answered := 0
	for b.Loop() {
		bench.core.Append(&Request{Append: request, Done: func(sequence.Answer) { answered++ }})
		bench.settle()
		if answered%256 == 0 {
			trimAll(t, bench.log, bench.core.Group.storage.last)
		}
	}
	require.Equal(b, b.N, answered)
}
