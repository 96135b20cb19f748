package suite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/bench/wire"
	"strandline.dev/bench/workload"
)

var short = limit.Span{Duration: 25 * time.Millisecond}

func TestAppendsAreRepeatedAndTheLogIsDeleted(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	var err error
	s.Directory, err = report.OpenDirectory(t.TempDir())
	require.NoError(t, err)
	rates, err := s.Appends(t.Context(), subject, Appends{
		Appends:     workload.Appends{Workers: 4, ValueBytes: 8, Span: limit.Span{Duration: 100 * time.Millisecond}},
		Connections: []int{1, 4}, Log: "l",
	})
	require.NoError(t, err)
	require.Len(t, kept.rows, 2)
	require.Equal(t, "2", kept.rows[0].Text("runs"))
	require.Equal(t, "Memory", kept.rows[0].Text("system"))
	require.Equal(t, "none", kept.rows[0].Text("disk"))
	require.Positive(t, rates[4])
	require.Empty(t, system.logs)
	require.NoError(t, s.Directory.Close())
	results, err := report.ReadDirectory(s.Directory.Path())
	require.NoError(t, err)
	require.Len(t, results.Runs, 4, "every single run is kept")
	require.Len(t, results.Curves, 2)
}

func TestEachNumberOfLogsHasItsOwn(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	require.NoError(t, s.Logs(t.Context(), subject, Logs{
		Appends: workload.Appends{Workers: 4, ValueBytes: 8, Span: limit.Span{Duration: 100 * time.Millisecond}}, Numbers: []int{1, 10},
	}))
	require.Len(t, kept.rows, 2)
	require.Equal(t, "10", kept.rows[1].Text("logs"))
	require.Equal(t, "2", kept.rows[1].Text("runs"))
	require.NotEmpty(t, kept.rows[1].Text("created_s"))
	require.Len(t, system.created, 2)
	require.Equal(t, 10, system.created[1].Partitions)
	require.Empty(t, system.logs)
}

func TestIdleLogsAreComparedWithNone(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		system.mu.Lock()
		defer system.mu.Unlock()
		_, _ = fmt.Fprintf(w, "go_threads 7\ngo_goroutines %d\n", 10+len(system.logs))
	}))
	defer metrics.Close()
	measured := subject
	measured.HTTP = []string{metrics.Listener.Addr().String()}
	load := Idle{Logs: 3, Settle: time.Millisecond, Span: short}
	require.NoError(t, s.Idle(t.Context(), measured, load))
	require.Len(t, kept.rows, 1)
	row := kept.rows[0]
	require.Equal(t, "3", row.Text("logs"))
	require.Equal(t, "10", row.Text("goroutines_without"))
	require.Equal(t, "11", row.Text("goroutines"), "measured while the log is there")
	require.Empty(t, row.Text("disk_kib_per_log"), "its files are out of reach")
	require.Equal(t, 3, system.created[0].Partitions)
	require.Equal(t, int64(3), system.appended, "a record for each log")
	require.Empty(t, system.logs)

	metrics.Close()
	require.Error(t, s.Idle(t.Context(), measured, load))
	require.Equal(t, "idle", kept.rows[1].Text("failed"))
}

func TestALogThatWasThereStays(t *testing.T) {
	system := newMemorySystem()
	require.NoError(t, system.Create(t.Context(), "l", workload.LogConfig{}))
	s, _ := quiet(t, system)
	_, err := s.Appends(t.Context(), subject, Appends{
		Appends: workload.Appends{Workers: 1, ValueBytes: 8, Span: short}, Connections: []int{1}, Log: "l",
	})
	require.NoError(t, err)
	require.Len(t, system.logs, 1)
}

func TestEveryConfigurationHasALogOfItsOwn(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	m := configured(workload.RetentionConfigurations, 0, short.Duration)
	require.NoError(t, s.Retention(t.Context(), subject, m, []time.Duration{48 * time.Hour, time.Second}))
	require.Len(t, kept.rows, 4)
	require.Equal(t, "retention=2d mode=sync acks=-1", kept.rows[0].Text("setting"))
	require.Equal(t, "read back", kept.rows[0].Text("checked"))
	require.Len(t, system.created, 8, "two retentions, two modes, two runs")
	require.Equal(t, time.Second, system.created[7].Retention)
	require.Equal(t, 8, system.deleted)
	require.Equal(t, "0", kept.rows[0].Text("trimmed_percent"))

	system.trimmed = 1 // a record of each log
	m.Check = false    // what is trimmed cannot be read back
	m.Configurations = m.Configurations[1:]
	require.NoError(t, s.Retention(t.Context(), subject, m, []time.Duration{time.Second}))
	require.Len(t, kept.rows, 5)
	trimmed, _ := kept.rows[4].Number("trimmed_percent")
	require.Positive(t, trimmed)
}

func TestEveryHistogramIsKeptAndThoseOfAFewDrawn(t *testing.T) {
	for name, row := range map[string]struct {
		measure       func(*Suite) error
		files, curves int
	}{
		"appends": {func(s *Suite) error {
			_, err := s.Appends(t.Context(), subject, Appends{
				Appends: workload.Appends{Workers: 4, ValueBytes: 8, Span: short}, Connections: []int{1, 2, 4}, Log: "l",
			})
			return err
		}, 3, 2},
		"pipeline": {func(s *Suite) error {
			return s.Pipeline(t.Context(), subject, Pipeline{
				Pipeline:   workload.Pipeline{Records: 10, ValueBytes: 16, Span: limit.Span{Duration: time.Minute}},
				RoundTrips: []time.Duration{0, time.Millisecond}, InFlight: []int{5, 0},
			})
		}, 4, 4},
		"matrix": {func(s *Suite) error {
			return s.Matrix(t.Context(), subject, configured("mode=sync\nmode=async", 0, short.Duration))
		}, 2, 0},
		"retention": {func(s *Suite) error {
			return s.Retention(t.Context(), subject, configured("mode=sync", 0, short.Duration), []time.Duration{time.Hour, time.Minute})
		}, 2, 0},
		"ramdisk": {func(s *Suite) error {
			return s.RAMDisk(t.Context(), subject, configured("mode=sync", 0, short.Duration))
		}, 1, 0},
	} {
		s, _ := quiet(t, newMemorySystem())
		var err error
		s.Directory, err = report.OpenDirectory(t.TempDir())
		require.NoError(t, err)
		require.NoError(t, row.measure(s))
		require.NoError(t, s.Directory.Close())
		files, err := filepath.Glob(filepath.Join(s.Directory.Path(), "latency", name+"-*.hgrm"))
		require.NoError(t, err)
		require.Len(t, files, row.files, "%s: %v", name, files)
		results, err := report.ReadDirectory(s.Directory.Path())
		require.NoError(t, err)
		require.Len(t, results.Curves, row.curves, name)
	}
}

func TestWhatASystemCannotDoIsLeftOutAndSaid(t *testing.T) {
	system := newMemorySystem()
	system.refuse = fmt.Errorf("acks 0: %w", workload.ErrUnsupported)
	s, kept := quiet(t, system)
	require.NoError(t, s.Matrix(t.Context(), subject, configured("mode=sync\nmode=async", 0, short.Duration)))
	require.Len(t, kept.rows, 2)
	require.Equal(t, "matrix", kept.rows[1].Text("skipped"))
	require.Equal(t, "mode=async", kept.rows[1].Text("setting"))
}

func TestAFailureIsARowAndTheNextIsMeasured(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	lost := errors.New("the disk is gone")
	system.refuseAfter(lost, 1) // the first run of the first configuration is well
	err := s.Matrix(t.Context(), subject, configured("mode=sync\nmode=async", 0, short.Duration))
	require.ErrorIs(t, err, lost)
	require.Len(t, kept.rows, 3)
	require.Equal(t, "1", kept.rows[0].Text("runs"), "what was measured before stays")
	for i, setting := range []string{"mode=sync", "mode=async"} {
		require.Equal(t, "matrix", kept.rows[i+1].Text("failed"))
		require.Equal(t, setting, kept.rows[i+1].Text("setting"))
		require.Contains(t, kept.rows[i+1].Text("why"), lost.Error())
	}
}

func TestEveryBenchmarkReportsItsFailures(t *testing.T) {
	lost := errors.New("the disk is gone")
	for name, measure := range map[string]func(*Suite) error{
		"appends": func(s *Suite) error {
			_, err := s.Appends(t.Context(), subject, Appends{Appends: workload.Appends{Workers: 2, Span: short}, Connections: []int{1, 2}})
			return err
		},
		"logs": func(s *Suite) error {
			return s.Logs(t.Context(), subject, Logs{Appends: workload.Appends{Workers: 2, Span: short}, Numbers: []int{1, 2}})
		},
		"fan-out": func(s *Suite) error {
			return s.FanOut(t.Context(), subject, FanOut{
				FanOut: workload.FanOut{Workers: 1, Writers: 1, ValueBytes: 16, PerSecond: 1, Span: short}, Tails: []int{0, 1},
			})
		},
		"pipeline": func(s *Suite) error {
			return s.Pipeline(t.Context(), subject, Pipeline{
				Pipeline: workload.Pipeline{Records: 1, ValueBytes: 16, Span: short}, RoundTrips: []time.Duration{0}, InFlight: []int{1, 5},
			})
		},
		"retention": func(s *Suite) error {
			return s.Retention(t.Context(), subject, configured("mode=sync", 0, short.Duration), []time.Duration{time.Hour, time.Minute})
		},
	} {
		system := newMemorySystem()
		s, kept := quiet(t, system)
		system.refuseAfter(lost, 0)
		require.ErrorIs(t, measure(s), lost)
		require.Len(t, kept.rows, 2, name)
		for _, row := range kept.rows {
			require.Equal(t, name, row.Text("failed"))
			require.NotEmpty(t, row.Text("setting"))
		}
	}
}

func TestAReadThatFailsHasARow(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	r := Reads{Reads: workload.Reads{Records: 100, ValueBytes: 16}, Readers: []int{1, 101, 3}, Log: "r"}
	_, err := s.Reads(t.Context(), subject, r)
	require.ErrorContains(t, err, "101 readers need as many records, not 100")
	require.Len(t, kept.rows, 3)
	require.Equal(t, "read", kept.rows[1].Text("failed"))
	require.Equal(t, "readers: 101, unknown", kept.rows[1].Text("setting"))

	system.refuseAfter(errors.New("the disk is gone"), 0)
	_, err = s.Reads(t.Context(), subject, r)
	require.ErrorContains(t, err, "the disk is gone")
	require.Len(t, kept.rows, 4, "what could not be filled is reported once")
}

func TestAnInterruptionIsNoFailure(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	ctx, cancel := context.WithCancel(t.Context())
	system.refuseAfter(context.Canceled, 1)
	system.refused = cancel
	require.Error(t, s.Matrix(ctx, subject, configured("mode=sync\nmode=async", 0, short.Duration)))
	require.Len(t, kept.rows, 1)
	require.Equal(t, "matrix", kept.rows[0].Text("benchmark"))
}

func TestAPipelineIsReadBackFromItsOwnLog(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	require.NoError(t, s.Pipeline(t.Context(), subject, Pipeline{
		Pipeline:   workload.Pipeline{Records: 100, ValueBytes: 16, Span: limit.Span{Duration: time.Minute}, Check: true},
		RoundTrips: []time.Duration{0, 140 * time.Millisecond}, InFlight: []int{5, 0},
	}))
	require.Len(t, kept.rows, 4)
	require.Equal(t, "140", kept.rows[3].Text("round_trip_ms"))
	require.Equal(t, "automatic", kept.rows[3].Text("in_flight"))
	require.Equal(t, "read back", kept.rows[3].Text("checked"))
	require.Equal(t, "no request was seen", kept.rows[0].Text("limit_kept"), "nothing passed the link")
}

func TestAPartOfThePipelineHasItsOwnRepeatsAndKafkaNothingAutomatic(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	p := Pipeline{
		Pipeline:   workload.Pipeline{Records: 100, ValueBytes: 16, Span: limit.Span{Duration: time.Minute}},
		RoundTrips: []time.Duration{time.Millisecond}, InFlight: []int{5, 0}, Repeats: 3,
	}
	require.NoError(t, s.Pipeline(t.Context(), subject, p.of(subject)))
	require.Len(t, kept.rows, 2)
	require.Equal(t, "3", kept.rows[0].Text("runs"))
	kafka := subject
	kafka.Scheme = driver.Kafka
	require.Equal(t, []int{5}, p.of(kafka).InFlight)
	require.Equal(t, []int{5, 0}, p.InFlight)
}

func TestReadsInTurnAlternateBetweenTheSubjects(t *testing.T) {
	system := newMemorySystem()
	s, kept := quiet(t, system)
	s.Repeats = 3
	var order []string
	s.Bar = func(label string, total int64, u Unit) Bar {
		if strings.HasPrefix(label, "read") {
			order = append(order, strings.Split(label, ", ")[1])
		}
		return silentBar{}
	}
	other := subject
	other.Name = "Other"
	r := Reads{Reads: workload.Reads{Records: 100, ValueBytes: 16}, Readers: []int{1, 101}, Log: "r", Keep: true}
	require.ErrorContains(t, s.ReadsInTurn(t.Context(), []Subject{subject, other}, r), "101 readers need as many records, not 100")
	require.Equal(t, []string{"Memory", "Other", "Memory", "Other", "Memory", "Other", "Memory", "Other"}, order)
	require.Len(t, kept.rows, 4)
	require.Equal(t, "Other", kept.rows[1].Text("system"))
	require.Equal(t, "3", kept.rows[1].Text("runs"))
	require.Equal(t, "read", kept.rows[3].Text("failed"))
	require.Len(t, system.logs, 1, "the log is kept")
}

func TestTheProgressLineHasItsForm(t *testing.T) {
	c := wire.NewCounter(wire.Kafka)
	produce := []byte{0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1}
	c.Up(1, produce)
	c.Up(1, append(produce[:11:11], 2))
	c.Down(1, []byte{0, 0, 0, 4, 0, 0, 0, 1})
	line := progressLine(workload.Sofar{Acked: 1000, Bytes: 10 << 20, Elapsed: 2 * time.Second}, c)
	require.Regexp(t, `^1000 records sent, 500\.0 records/sec \(5\.00 MiB/sec ingress, 0\.00 MiB/sec egress\), `+
		`[0-9.]+ ms avg latency, [0-9.]+ ms stddev, [0-9.]+ ms 50th, [0-9.]+ ms 75th, [0-9.]+ ms 95th, [0-9.]+ ms 99th, [0-9.]+ ms 99\.9th, `+
		`1 total req\. in flight$`, line)
}

func TestThroughputIsComparedWithTheWindow(t *testing.T) {
	p := workload.Pipeline{Sending: workload.Sending{InFlight: 5, RequestBytes: 1000}}
	r := workload.PipelineResult{Acked: 400, Rate: limit.Rate{Count: 200, Elapsed: time.Second}}
	require.InDelta(t, 0.5, ofWindow(p, 100*time.Millisecond, r, wire.Counts{Up: 400 * 125}), 1e-9, "200 records of 125 bytes a second, of 5 times 1000 bytes every 100 ms")
	p.Sending.InFlight = 0
	require.Zero(t, ofWindow(p, 100*time.Millisecond, r, wire.Counts{Up: 1}))
}

func TestALimitThatWasExceededIsSaid(t *testing.T) {
	require.Equal(t, "no: 6 of 5", kept(5, 1, subject, wire.Counts{Requests: 1, Most: 6}))
	require.Equal(t, "yes", kept(0, 0, subject, wire.Counts{Requests: 1, Most: automaticMost}))
	require.Equal(t, "yes", kept(5, 2, subject, wire.Counts{Requests: 1, Most: 10}), "a producer for each partition")
	kafka := subject
	kafka.Scheme = "kafka"
	require.Equal(t, "no limit known", kept(0, 1, kafka, wire.Counts{Requests: 1, Most: 1000}))
	require.Equal(t, "no request was seen", kept(5, 1, subject, wire.Counts{}))
}
