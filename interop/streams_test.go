package interop

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Kafka's own example of Streams counts words, at least once: with topics of its own
// for what it regroups and for its state.
func TestStreamsWordCount(t *testing.T) {
	onClusters(t, func(c *cluster) {
		for _, topic := range []string{"streams-plaintext-input", "streams-wordcount-output"} {
			c.strandline("", "log", "create", topic)
		}
		want := map[string]int64{}
		var lines strings.Builder
		for i := range linesPerPart {
			for _, word := range []string{"all", fmt.Sprintf("word%d", i%10)} {
				want[word]++
				fmt.Fprint(&lines, word, " ")
			}
			fmt.Fprintln(&lines)
		}
		c.strandline(lines.String(), "append", "streams-plaintext-input")
		settings := properties(c.T, map[string]string{
			"bootstrap.servers": c.bootstrap, "state.dir": filepath.Join(c.TempDir(), "state"),
			"replication.factor": fmt.Sprint(c.nodes), "commit.interval.ms": "500",
		})
		counter := begin(c.T, "org.apache.kafka.streams.examples.wordcount.WordCountDemo", settings)
		var got map[string]int64
		counter.until("all words are counted", func() bool {
			got = c.countsByFranz("streams-wordcount-output")
			return maps.Equal(want, got)
		})
		require.Equal(c, want, got)
	})
}
