package node

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/sequence"
)

// BenchmarkAppend is an append of one record to a log in memory on a node that is
// alone, from the verb to its answer: what the node and the replica take without a
// disk.
func BenchmarkAppend(b *testing.B) {
	n, err := Open(settings.Options{FormAlone: true, DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Close(b.Context())) }()
	_, err = n.CreateLog(b.Context(), anyone, "orders", settings.Config{Durability: settings.Memory})
	require.NoError(b, err)
	a := request(b, "a record")
	answers := make(chan sequence.Answer, 1)
	done := func(a sequence.Answer) { answers <- a }
	b.ReportAllocs()
	for b.Loop() {
		n.Append(anyone, "orders", a, done)
		if answer := <-answers; answer.Refusal != nil {
			b.Fatal(answer.Refusal)
		}
	}
}
