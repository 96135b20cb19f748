package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	require.NoError(t, err)
	return string(text)
}

// The list itself is what a node exports: TestThePageOfMetricsIsWhatANodeExports.
func TestTheDashboardsAreThoseOfTheListOfMetrics(t *testing.T) {
	boards, err := dashboards(page(t))
	require.NoError(t, err)
	for _, b := range boards {
		committed, err := os.ReadFile(b.file)
		require.NoError(t, err)
		require.Equal(t, string(render(b)), string(committed), "run `go run ./deploy/grafana`")
		require.True(t, json.Valid(committed))
	}
}

func TestEveryMetricOfTheListIsOnADashboard(t *testing.T) {
	boards, err := dashboards(page(t))
	require.NoError(t, err)
	var text strings.Builder
	for _, b := range boards {
		text.Write(render(b))
	}
	metrics := list(page(t))
	require.Equal(t, strings.Count(page(t), "\n| `strandline_"), len(metrics)+strings.Count(page(t), "\n| `strandline_log_hold_kept_bytes` by"), "rows of the list")
	for _, m := range metrics {
		require.Regexp(t, m.name+`(_bucket|_sum|_count)?\{`, text.String())
	}
}

func TestAPanelOfAMetricThatTheListLacksIsAnError(t *testing.T) {
	_, err := dashboards(strings.Replace(page(t), "`strandline_elections_total`", "`strandline_votes_total`", 1))
	require.ErrorContains(t, err, "docs/metrics.md has no metric strandline_elections_total")
}

func TestAMetricForWhichNobodyMadeAPanelGetsOne(t *testing.T) {
	text := page(t) + "\n| `strandline_naps_total` | reason | Naps. |\n| `strandline_log_nap_seconds` | log | Time of a nap. |\n"
	boards, err := dashboards(text)
	require.NoError(t, err)
	last := func(b dashboard) panel {
		panels := b.rows[len(b.rows)-1].panels
		return panels[len(panels)-1]
	}
	require.Equal(t, []query{{`rate(strandline_naps_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}} {{reason}}"}}, last(boards[0]).queries)
	require.Equal(t, []query{{`histogram_quantile(0.99, sum by (instance, log, le) (rate(strandline_log_nap_seconds_bucket{instance=~"$instance",log="$log"}[$__rate_interval])))`, "{{instance}}"}}, last(boards[1]).queries)
}

func TestPanelsDoNotOverlap(t *testing.T) {
	boards, err := dashboards(page(t))
	require.NoError(t, err)
	for _, b := range boards {
		var whole struct {
			Panels []struct {
				ID      int
				GridPos struct{ X, Y, W, H int }
			}
		}
		require.NoError(t, json.Unmarshal(render(b), &whole))
		taken, ids := map[[2]int]int{}, map[int]bool{}
		for _, p := range whole.Panels {
			require.False(t, ids[p.ID])
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				require.Less(t, x, 24)
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Zero(t, taken[[2]int{x, y}], "%s: panel %d", b.file, p.ID)
					taken[[2]int{x, y}] = p.ID
				}
			}
		}
	}
}
