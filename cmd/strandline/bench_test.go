package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows parses JSON lines.
func rows(t *testing.T, out string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out) {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		all = append(all, row)
	}
	return all
}

// figures of the rows whose first field is kind.
func figures(all []map[string]any, kind string) map[string]bool {
	seen := map[string]bool{}
	for _, row := range all {
		if name, ok := row[kind].(string); ok {
			seen[name] = true
		}
	}
	return seen
}

func TestBenchLimitsNeedNoServer(t *testing.T) {
	command := program(t, "bench", "limits", "--json", "--warmup", "50ms", "--duration", "300ms")
	out, err := command.Output()
	require.NoError(t, err)
	all := rows(t, string(out))
	require.Equal(t, map[string]bool{
		"fdatasync": true, "tcp_echo": true, "grpc_echo": true, "tcp_stream": true, "grpc_stream": true,
	}, figures(all, "limit"))
	for _, row := range all {
		for name, value := range row {
			if strings.HasSuffix(name, "per_s") {
				require.Positive(t, value, row)
			}
		}
	}
}

func TestBenchAppendsMeasuresEveryConnectionCount(t *testing.T) {
	p := serve(t, t.TempDir())
	csv := filepath.Join(t.TempDir(), "result.csv")
	out := p.must("", "bench", "appends", "--json", "--connections", "1,3", "--workers", "6",
		"--warmup", "20ms", "--duration", "200ms", "--with-limits", "--csv", csv)
	var connections []float64
	for _, row := range rows(t, out) {
		if row["benchmark"] == "appends" {
			connections = append(connections, row["connections"].(float64))
			require.Positive(t, row["appends_per_s"])
			require.Positive(t, row["mib_per_s"])
			require.LessOrEqual(t, row["p50_us"], row["p999_us"])
		}
	}
	require.Equal(t, []float64{1, 3}, connections)
	require.Equal(t, map[string]bool{"appends/grpc_echo": true}, figures(rows(t, out), "ratio"))
	written, err := os.ReadFile(csv)
	require.NoError(t, err)
	require.Contains(t, string(written), "benchmark,connections,appends_per_s,mib_per_s,p50_us,p99_us,p999_us\n")
	require.Empty(t, p.must("", "log", "list", "--json"), "the log that the benchmark made is gone")
}

func TestBenchReadChecksWhatItReads(t *testing.T) {
	p := serve(t, t.TempDir())
	args := []string{"bench", "read", "--size", "4MiB", "--readers", "1,4", "--data", p.data, "--json"}
	for range 2 { // filled, and found full
		all := rows(t, p.must("", args...))
		require.Equal(t, map[string]bool{"read": true}, figures(all, "benchmark"))
		require.Equal(t, map[string]bool{"cat": true}, figures(all, "limit"))
		require.Len(t, all, 1+2*(2+1))
	}
	p.must("somebody else's\n", "append", "bench-read")
	p.must("", "log", "trim", "bench-read", "--before", "1")
	o := p.run(nil, args...)
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.err, "choose another --log")
}
