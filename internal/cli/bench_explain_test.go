package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the stages add up to is what the workers measured around their calls, to 5 %.
func TestBenchAppendsExplainsWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	var all []map[string]any
	patiently(t, func(duration string) bool {
		all = rows(t, p.must("", "bench", "appends", "--json", "--explain", "--connections", "1,2", "--workers", "4", "--warmup", "20ms", "--duration", duration))
		return positive(all)
	})
	stages := map[float64]map[string]map[string]any{}
	for _, row := range all {
		if row["benchmark"] == "stages" {
			n := row["connections"].(float64)
			if stages[n] == nil {
				stages[n] = map[string]map[string]any{}
			}
			stages[n][row["stage"].(string)] = row
		}
	}
	require.Len(t, stages, 2)
	for _, of := range stages {
		require.Len(t, of, 12, "ten stages, their sum and what was measured")
		total := 0.0
		for _, stage := range []string{"gather", "network", "receive", "queue", "batch", "write", "sync", "replicas", "answer", "wake"} {
			total += of[stage]["mean_us"].(float64)
		}
		require.InEpsilon(t, of["measured"]["mean_us"], total, 0.05)
		require.InDelta(t, 100, of["sum"]["share_percent"], 5)
		require.Positive(t, of["sync"]["mean_us"])
		require.Zero(t, of["replicas"]["mean_us"], "a node alone waits for no other")
	}
}

func TestAppendExplainsWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	p.must("", "log", "create", "orders")
	var shown struct {
		Records int
		Stages  []struct {
			Stage        string
			SharePercent float64 `json:"share_percent"`
			MeanUs       float64 `json:"mean_us"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("one\ntwo\n", "append", "orders", "--explain", "--json")), &shown))
	require.Equal(t, 2, shown.Records)
	require.Len(t, shown.Stages, 10)
	total := 0.0
	for _, s := range shown.Stages {
		total += s.SharePercent
		if s.Stage == "sync" {
			require.Positive(t, s.MeanUs)
		}
	}
	require.InDelta(t, 100, total, 0.01)
	require.Regexp(t, `STAGE +SHARE +MEAN +P50 +P99`, p.must("three\n", "append", "orders", "--explain"))
	require.NotContains(t, p.must("four\n", "append", "orders"), "STAGE")
}
