package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func measuredAt(system, client, durability string, connections int, perSecond float64, runs int) Row {
	s := Subject{System: system, Client: client, Durability: durability, Disk: "as it is"}
	return append(s.row("appends"), Row{
		{"loop", "closed"}, {"connections", connections}, {"appends_per_s", perSecond}, {"runs", runs},
	}...)
}

func TestTheVerdictComparesWhatWasAskedOfAll(t *testing.T) {
	const kafka = "fsync (flush.messages=1), 1 of 1"
	failing := Subject{System: "Kafka 4.3.1", Client: "franz-go", Durability: kafka, Disk: "as it is"}
	r := Results{Rows: []Row{
		measuredAt("Kafka 4.3.1", "franz-go", kafka, 1, 20_000, 3),
		measuredAt("Kafka 4.3.1", "Sarama", kafka, 1, 50_000, 5),
		measuredAt("Strandline", "Go client", "fsync, 1 of 1", 1, 100_000, 3),
		measuredAt("Strandline, Kafka port", "franz-go", "fsync, 1 of 1", 1, 70_000, 3),
		measuredAt("Kafka 4.3.1", "franz-go", kafka, 8, 0, 1),
		measuredAt("Strandline", "Go client", "fsync, 1 of 1", 8, 60_000, 3),
		measuredAt("Strandline", "Go client", "fsync, 1 of 1", 128, 40_000, 3),
		measuredAt("Strandline", "Go client", "memory, no disk, 1 of 1", 1, 200_000, 1), // nobody to compare with
		Failed("appends", failing, "connections=128", errors.New("went away")),
	}}
	v := r.verdict()
	require.Equal(t, []string{"measured", "figure", "Strandline", "Kafka 4.3.1", "Strandline, Kafka port", "Strandline to the best other", "runs"}, v.Names)
	require.Equal(t, [][]string{
		{"appends, fsync, replicas: 1, disk: as it is, loop closed, connections 1", "appends_per_s", "100000", "50000", "70000", "2 times", "3"},
		{"appends, fsync, replicas: 1, disk: as it is, loop closed, connections 8", "appends_per_s", "60000", "failed", "-", "-", "3"},
		{"appends, fsync, replicas: 1, disk: as it is, loop closed, connections 128", "appends_per_s", "40000", "failed", "-", "-", "3"},
	}, v.Cells)

	var page strings.Builder
	require.NoError(t, r.HTML(&page))
	require.Less(t, strings.Index(page.String(), `id="verdict"`), strings.Index(page.String(), `id="charts"`))
	require.Contains(t, page.String(), `<td class="failed">failed</td>`)
}

func TestWithoutAnotherSystemThereIsNoVerdict(t *testing.T) {
	r := Results{Rows: []Row{measuredAt("Strandline", "Go client", "fsync, 1 of 1", 1, 100_000, 3)}}
	require.Empty(t, r.verdict().Cells)
	var page strings.Builder
	require.NoError(t, r.HTML(&page))
	require.NotContains(t, page.String(), "Verdict")
}

func TestASystemHasOneColourInAllCharts(t *testing.T) {
	d := drawer{Results{Rows: []Row{
		measuredAt("Strandline", "Go client", "fsync, 1 of 1", 1, 1, 1),
		measuredAt("Strandline, Kafka port", "franz-go", "fsync, 1 of 1", 1, 1, 1),
		measuredAt("Kafka 4.3.1", "franz-go", "fsync, 1 of 1", 1, 1, 1),
	}}}
	one := d.styled([]string{"Kafka 4.3.1, franz-go", "Strandline, Kafka port, franz-go", "Kafka 4.3.1, Sarama"})
	other := d.styled([]string{"Strandline, Go client", "Kafka 4.3.1, Sarama"})
	require.Equal(t, one[0].Family, one[2].Family)
	require.Equal(t, one[0].Family, other[1].Family)
	require.NotEqual(t, one[0].Member, one[2].Member)
	require.NotEqual(t, one[1].Family, other[0].Family, "a port is a system of its own")
}

func TestASingleRunHasNoSpread(t *testing.T) {
	require.Empty(t, Median([]Row{{{"benchmark", "appends"}, {"appends_per_s", 5.0}}}, "appends_per_s").Text("spread_percent"))
	require.Equal(t, "40", Median([]Row{{{"appends_per_s", 4.0}}, {{"appends_per_s", 6.0}}}, "appends_per_s").Text("spread_percent"))
}
