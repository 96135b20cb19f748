package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node"
	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/audit"
	"strandline.dev/internal/server/guard"
	kafkaserver "strandline.dev/internal/server/kafka"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/secure"
)

const metricsPage = "../../docs/metrics.md"

var (
	described = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)
	metricRow = regexp.MustCompile("(?m)^\\| `(strandline_[a-z0-9_]+)` \\|.*$")
	labelName = regexp.MustCompile(`([a-z_]+)=`)
)

// descsOf are the descriptions of a collector, as described takes them apart.
func descsOf(c prometheus.Collector) (all [][]string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			panic("a description of another form: " + d.String())
		}
		all = append(all, found)
	}
	return all
}

// exported are the rows of all metrics that a node exports, by name.
func exported(t *testing.T) map[string]string {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	n, err := node.Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Logger: quiet})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	ofLogs, err := n.LogMetrics([]string{"*"})
	require.NoError(t, err)
	grpcServer := rpc.New(rpc.Options{Logger: quiet})
	defer grpcServer.Stop(context.Background())
	kafka := kafkaserver.New(guard.New(n, guard.Options{}), kafkaserver.Options{Logger: quiet})
	defer kafka.Stop(context.Background())

	gate := secure.NewGate(secure.GateOptions{})
	audited, err := audit.Open(filepath.Join(t.TempDir(), "audit.log"), quiet)
	require.NoError(t, err)
	defer audited.Close()
	rows := map[string]string{}
	for _, c := range slices.Concat([]prometheus.Collector{n.Metrics(), ofLogs}, grpcServer.Metrics(), kafka.Metrics(), gate.Metrics(), audited.Metrics(), guard.New(n, guard.Options{}).Metrics()) {
		for _, found := range descsOf(c) {
			labels := strings.Split(found[4], ",")
			for _, constant := range labelName.FindAllStringSubmatch(found[3], -1) {
				labels = append(labels, constant[1])
			}
			labels = slices.DeleteFunc(labels, func(l string) bool { return l == "" })
			slices.Sort(labels)
			rows[found[1]] = fmt.Sprintf("| `%s` | %s | %s |", found[1], strings.Join(labels, ", "), found[2])
		}
	}
	return rows
}

// Names, labels and meanings: the page is what the program says.
func TestThePageOfMetricsIsWhatANodeExports(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		require.NotContains(t, documented, row[1])
		documented[row[1]] = row[0]
	}
	require.Equal(t, exported(t), documented)
}

// What is described must be given, too: all that needs no event before it.
func TestANodeGivesEveryMetricThatItDescribes(t *testing.T) {
	t.Parallel()
	n, err := node.Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	_, err = n.Read(t.Context(), verbs.Caller{}, "none", reading.Request{}) // a refusal
	require.Error(t, err)
	_, err = n.CreateLog(t.Context(), verbs.Caller{}, "orders", settings.Config{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err = n.SetHold(t.Context(), verbs.Caller{}, "orders", record.Hold{Name: "backup"}, reading.FromOffset)
		return err == nil
	}, time.Minute, time.Millisecond, "its leader takes a hold")
	_, err = n.LeaseWriter(t.Context(), verbs.Caller{}, "orders", record.Writer{Name: "indexer", Lease: 3_600_000}, 0)
	require.NoError(t, err)
	ofLogs, err := n.LogMetrics([]string{"*"})
	require.NoError(t, err)
	var names, given []string
	for _, c := range []prometheus.Collector{n.Metrics(), ofLogs} {
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(c))
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			given = append(given, f.GetName())
		}
		for _, d := range descsOf(c) {
			names = append(names, d[1])
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		// A node alone has no followers.
		return slices.Contains([]string{
			"strandline_log_follower_lag_records", "strandline_log_read_replica_lag_records", "strandline_append_replica_seconds",
		}, name)
	})
	require.ElementsMatch(t, names, given)
}

// An alert on a metric that is not there never fires.
func TestAlertsAreOnMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	known := exported(t)
	used := regexp.MustCompile(`\bstrandline_[a-z0-9_]+`).FindAllString(string(rules), -1)
	require.NotEmpty(t, used)
	for _, metric := range used {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base := strings.TrimSuffix(metric, suffix); base != metric && strings.HasSuffix(base, "_seconds") {
				metric = base
			}
		}
		require.Contains(t, known, metric)
	}
	require.NotContains(t, string(rules), "job=", "a job has the name that its operator gives it")
}

// What to do about an alert is where its operator looks, and what is to be watched has one.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	runbook, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`(?s)- alert: (\w+)(.*?)(?:\n\n|$)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	tests, err := os.ReadFile("../../deploy/prometheus/alerts_test.yml")
	require.NoError(t, err)
	for _, alert := range alerts {
		name, rule := alert[1], alert[2]
		require.Contains(t, string(runbook), "| `"+name+"` |")
		require.Contains(t, string(tests), `alertname="`+name+`"`, "a test in which it fires")
		for _, annotation := range []string{"summary", "description"} {
			require.Regexp(t, `(?m)^          `+annotation+`: ".+"$`, rule, name)
		}
		require.Contains(t, rule, "runbook_url: https://strandline.dev/monitoring.html#what-to-do-about-an-alert", name)
	}
	require.Contains(t, string(runbook), "\n## What to do about an alert\n", "runbook_url leads there")
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	watched := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`(strandline_\\w+)`, which should be watched").FindAllStringSubmatch(string(text), -1) {
			watched++
			require.Contains(t, string(rules), m[1], page)
		}
	}
	require.NotZero(t, watched)
}

// However many logs there are, a scrape has the same number of series.
func TestAScrapeDoesNotGrowWithTheNumberOfLogs(t *testing.T) {
	n, err := node.Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	series := func() (count int) {
		registry := prometheus.NewRegistry()
		require.NoError(t, registry.Register(n.Metrics()))
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			count += len(f.Metric)
		}
		return count
	}
	before := series()
	for i := range 20 {
		_, err := n.CreateLog(t.Context(), verbs.Caller{}, fmt.Sprintf("log-%d", i), settings.Config{})
		require.NoError(t, err)
	}
	require.Equal(t, before, series())
}
