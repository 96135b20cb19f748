package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/report/chart"
	"strandline.dev/bench/wire"
	"strandline.dev/bench/workload"
)

func results(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	measured(t, path, 50_000, 40_000, 90_000)
	return path
}

// measured adds a run of the benchmarks: the appends per second of each repeat.
func measured(t *testing.T, path string, rates ...float64) {
	t.Helper()
	d, err := OpenDirectory(path)
	require.NoError(t, err)
	require.NoError(t, d.Environment(Environment{Machine: "2 x some CPU", Disk: "/data", Fdatasync: limit.SyncCost{Synced: limit.NewHistogram()}}))
	for _, connections := range []int{1, 128} {
		var runs []Row
		for i, rate := range rates {
			run := appendsRow(connections)
			run[7].Value = rate
			runs = append(runs, run)
			require.NoError(t, d.Run(Repeat(run, i+1)))
		}
		require.NoError(t, d.Row(Median(runs, "appends_per_s")))
	}
	h := limit.NewHistogram()
	limit.Observe(h, time.Millisecond)
	require.NoError(t, d.Latency("appends", "fsync", subject.Name(), h))
	require.NoError(t, d.LatencyCurve("appends", "fsync", subject.Name(), h))
	require.NoError(t, d.Curve(Curve{Benchmark: "mixed", Kind: OverTime, Name: subject.Name(), Points: [][2]float64{{1, 200}, {2, 300}}, Events: []Mark{{1.5, "trim"}}}))
	require.NoError(t, d.Close())
}

func TestOfWhatIsMeasuredAgainTheNewestIsDrawn(t *testing.T) {
	path := results(t)
	first, err := ReadDirectory(path)
	require.NoError(t, err)
	drawn := first.Drawings()
	measured(t, path, 70_000, 60_000)
	both, err := ReadDirectory(path)
	require.NoError(t, err)
	require.Len(t, both.Rows, 4, "the tables have both")
	require.Len(t, both.Runs, 10)

	require.Len(t, both.Drawings(), len(drawn))
	newest := drawer{both.newest()}
	require.Len(t, newest.Rows, 2)
	series := newest.lines(newest.of("appends"), "connections", "appends_per_s", "system")
	require.Equal(t, []chart.Series{{Name: "Strandline", Points: []chart.Point{
		{X: 1, Y: 65_000, Low: 60_000, High: 70_000},
		{X: 128, Y: 65_000, Low: 60_000, High: 70_000},
	}}}, series, "with the spread of the newest runs, which are fewer")
	require.Len(t, newest.curves("appends", Percentiles, "fsync"), 1)

	again := t.TempDir()
	measured(t, again, 70_000, 60_000)
	alone, err := ReadDirectory(again)
	require.NoError(t, err)
	require.Equal(t, alone.Drawings(), both.Drawings())
}

func TestHistogramsOfARunBeforeStay(t *testing.T) {
	path := results(t)
	measured(t, path, 1)
	measured(t, path, 1)
	files, err := filepath.Glob(filepath.Join(path, "latency", "*.hgrm"))
	require.NoError(t, err)
	require.Len(t, files, 3)
}

func TestAHistogramMayHaveALongName(t *testing.T) {
	d, err := OpenDirectory(t.TempDir())
	require.NoError(t, err)
	h := limit.NewHistogram()
	limit.Observe(h, time.Millisecond)
	for range 2 {
		require.NoError(t, d.Latency("matrix", "", strings.Repeat("so many words ", 100), h))
	}
	require.NoError(t, d.Close())
}

func TestAMedianSaysItsSpread(t *testing.T) {
	r, err := ReadDirectory(results(t))
	require.NoError(t, err)
	require.Len(t, r.Rows, 2)
	require.Len(t, r.Runs, 6)
	middle, _ := r.Rows[0].Number("appends_per_s")
	require.EqualValues(t, 50_000, middle)
	spread, _ := r.Rows[0].Number("spread_percent")
	require.EqualValues(t, 100, spread)
	low, high := drawer{r}.spread(r.Rows[0], "appends_per_s")
	require.Equal(t, []float64{40_000, 90_000}, []float64{low, high})
}

func TestADirectoryBecomesAPageThatStandsAlone(t *testing.T) {
	path := results(t)
	page, err := Summarize(path)
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, expected := range []string{"2 x some CPU", "Appends against connections", "<svg", "Latency percentiles", "everything at once", "fsync, 1 of 1"} {
		require.Contains(t, string(text), expected)
	}
	require.NotContains(t, string(text), "<dt class=\"failed\">")
	for _, outside := range []string{"<script", "<link", "src=", "url("} {
		require.NotContains(t, string(text), outside)
	}
	csv, err := os.ReadFile(filepath.Join(path, "result.csv"))
	require.NoError(t, err)
	require.Equal(t, 7, strings.Count(string(csv), "\n"), "a header and six runs")
	latency, err := filepath.Glob(filepath.Join(path, "latency", "*.hgrm"))
	require.NoError(t, err)
	require.Len(t, latency, 1)

	r, err := ReadDirectory(path)
	require.NoError(t, err)
	var document strings.Builder
	require.NoError(t, r.Markdown(&document, "# Measured\n", "charts"))
	require.Contains(t, document.String(), "](charts/appends-replicas-1-disk-as-it-is.svg)")
	require.Contains(t, document.String(), "| Strandline | Go client | fsync, 1 of 1 |")
}

func TestEveryChartNamesTheDurability(t *testing.T) {
	path := results(t)
	d, err := OpenDirectory(path)
	require.NoError(t, err)
	h := limit.NewHistogram()
	limit.Observe(h, time.Millisecond)
	pipeline := workload.PipelineResult{Latency: h, Rate: limit.Rate{Count: 5, Elapsed: time.Second}}
	rows := []Row{
		Read(subject, workload.ReadResult{Readers: 1, Records: 1, Throughput: limit.Throughput{Bytes: 1 << 20, Elapsed: time.Second}}, Cached),
		Pipeline(subject, time.Millisecond, "5", pipeline, wire.Counts{}, h),
		Mixed(subject, workload.MixedResult{Append: h, Deliver: h}),
	}
	for _, benchmark := range []string{"matrix", "retention", "ramdisk"} {
		rows = append(rows, Configured(benchmark, subject, "mode=sync", pipeline))
		for i := range 2 {
			require.NoError(t, d.Run(Repeat(rows[len(rows)-1], i+1)))
		}
	}
	for _, row := range rows {
		require.NoError(t, d.Row(row))
	}
	require.NoError(t, d.LatencyCurve("pipeline", "round trip 1ms", subject.Name()+", in flight: 5", h))
	require.NoError(t, d.Close())
	r, err := ReadDirectory(path)
	require.NoError(t, err)
	drawings := r.Drawings()
	require.GreaterOrEqual(t, len(drawings), 8)
	for _, drawing := range drawings {
		require.Contains(t, drawing.SVG, subject.Durability, drawing.File)
	}
}

func TestAPageShowsWhatFailedAboveEverything(t *testing.T) {
	path := results(t)
	d, err := OpenDirectory(path)
	require.NoError(t, err)
	require.NoError(t, d.Row(Failed("matrix", subject, "mode=async acks=1", errors.New("3 records\nare missing"))))
	require.NoError(t, d.Close())
	page, err := Summarize(path)
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const line = "matrix, Strandline, Go client, fsync, 1 of 1, as it is, mode=async acks=1: 3 records; are missing"
	above, _, found := strings.Cut(string(text), "<svg")
	require.True(t, found)
	require.Contains(t, above, line)
	r, err := ReadDirectory(path)
	require.NoError(t, err)
	var document strings.Builder
	require.NoError(t, r.Markdown(&document, "# Measured\n", "charts"))
	above, below, _ := strings.Cut(document.String(), "## Charts")
	require.Contains(t, above, "- failed: "+line)
	require.Contains(t, below, "### Failed")
}

func TestALineThatWasCutOffIsLeftOut(t *testing.T) {
	path := results(t)
	file, err := os.OpenFile(filepath.Join(path, resultsFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"row":{"bench`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	r, err := ReadDirectory(path)
	require.NoError(t, err)
	require.Len(t, r.Rows, 2)
}
