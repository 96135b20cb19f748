package report

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"strandline.dev/bench/limit"
	"strandline.dev/bench/workload"
)

// stageTotal is a stage that took so many microseconds in each of n appends.
func stageTotal(name string, beside bool, n int64, start, took time.Duration) *workload.StageTotal {
	times := func() *hdrhistogram.Histogram {
		h := limit.NewHistogram()
		for range n {
			limit.Observe(h, took)
		}
		return h
	}
	return &workload.StageTotal{
		StageTime: workload.StageTime{Stage: name, Beside: beside, Start: start * time.Duration(n), Took: took * time.Duration(n)}, Count: n, Times: times(),
	}
}

func explained() *workload.Explained {
	const us = time.Microsecond
	return &workload.Explained{
		Stages: []*workload.StageTotal{
			stageTotal("queue", false, 10, 0, 20*us), stageTotal("sync", false, 10, 20*us, 60*us), stageTotal("replica b", true, 5, 20*us, 50*us),
			stageTotal("wake", false, 10, 80*us, 100*time.Nanosecond),
		},
		Sum: *stageTotal("", false, 10, 0, 80*us), Measured: *stageTotal("", false, 10, 0, 100*us),
	}
}

// The drawing is of the rows that JSON has, in the table only.
func TestStagesAreDrawnWhereTheyWereInTheTimeThatWasMeasured(t *testing.T) {
	var table strings.Builder
	w := Table(&table)
	for _, row := range Stages(Subject{System: "S", Client: "C", Durability: "fsync", Disk: "fast"}, 8, explained()) {
		require.NoError(t, w.Row(row))
	}
	require.NoError(t, w.Close())
	require.Equal(t, `benchmark  system  client  durability  disk  connections  stage      start_percent  share_percent  mean_us  p50_us  p99_us  appends_percent  0 %                                100 %
stages     S       C       fsync       fast  8            queue      0              20             20       20      20      100              ########
stages     S       C       fsync       fast  8            sync       20             60             60       60      60      100                      ########################
stages     S       C       fsync       fast  8            wake       80             0.1            0.1      0.127   0.127   100                                              |
stages     S       C       fsync       fast  8            sum        0              80             80       80.1    80.1    100              ################################
stages     S       C       fsync       fast  8            measured   0              100            100      100     100     100              ########################################
stages     S       C       fsync       fast  8            replica b  20             50             50       50      50      50                       ####################

`, table.String())

	var out strings.Builder
	w = JSON(&out)
	require.NoError(t, w.Row(Stages(subject, 8, explained())[1]))
	require.Equal(t, `{"benchmark":"stages","system":"Strandline","client":"Go client","durability":"fsync, 1 of 1","disk":"as it is","connections":8,"stage":"sync","start_percent":20,"share_percent":60,"mean_us":60,"p50_us":60,"p99_us":60,"appends_percent":100}
`, out.String())
}

// Rows that differ in the stage alone are all kept when the newest of each is.
func TestEachStageIsARowOfItsOwn(t *testing.T) {
	rows := Stages(subject, 8, explained())
	require.Len(t, Results{Rows: append(rows, rows...)}.newest().Rows, len(rows))
}
