package records

import (
	"fmt"
	"io"
	"text/tabwriter"

	"strandline.dev/client"
)

// stageJSON is where a part of the time of requests went.
type stageJSON struct {
	Stage        string  `json:"stage"`
	SharePercent float64 `json:"share_percent"` // of all stages together
	MeanUs       float64 `json:"mean_us"`
	P50Us        float64 `json:"p50_us"`
	P99Us        float64 `json:"p99_us"`
}

func (a *appended) explain(stages []client.StageHistogram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stages = stages
}

func stagesOf(stages []client.StageHistogram) (all []stageJSON) {
	total := 0.0
	for _, s := range stages {
		total += float64(s.Sum)
	}
	for _, s := range stages {
		all = append(all, stageJSON{
			s.Stage, float64(s.Sum) / max(total, 1) * 100, s.Mean() / 1e3, float64(s.Quantile(0.5)) / 1e3, float64(s.Quantile(0.99)) / 1e3,
		})
	}
	return all
}

// showStages prints a table, and nothing of no stages.
func showStages(out io.Writer, stages []stageJSON) {
	if len(stages) == 0 {
		return
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "\nSTAGE\tSHARE\tMEAN\tP50\tP99\t")
	for _, s := range stages {
		fmt.Fprintf(columns, "%s\t%.1f %%\t%.0f us\t%.0f us\t%.0f us\t\n", s.Stage, s.SharePercent, s.MeanUs, s.P50Us, s.P99Us)
	}
	_ = columns.Flush()
}
