package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
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

// patiently measures for longer and longer, until done: what a machine achieves
// within some milliseconds may be nothing, while its disk or its processors stall.
func patiently(t *testing.T, measure func(duration string) (done bool)) {
	t.Helper()
	for _, duration := range []string{"300ms", "3s", "30s"} {
		if measure(duration) {
			return
		}
		t.Logf("nothing was measured within %s", duration)
	}
	t.Fatal("nothing was measured within 30s")
}

// positive reports whether every rate in the rows is above 0.
func positive(all []map[string]any) bool {
	for _, row := range all {
		for name, value := range row {
			if rate, ok := value.(float64); ok && strings.HasSuffix(name, "per_s") && rate <= 0 {
				return false
			}
		}
	}
	return true
}

func TestBenchLimitsNeedNoServer(t *testing.T) {
	t.Parallel()
	patiently(t, func(duration string) bool {
		command := program(t, "bench", "limits", "--json", "--warmup", "50ms", "--duration", duration)
		out, err := command.Output()
		if err != nil {
			t.Log(err)
			return false
		}
		all := rows(t, string(out))
		require.Equal(t, map[string]bool{
			"fdatasync": true, "tcp_echo": true, "grpc_echo": true, "tcp_stream": true, "grpc_stream": true,
		}, figures(all, "limit"))
		return positive(all)
	})
}

func TestBenchAppendsMeasuresEveryConnectionCount(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	csv := filepath.Join(t.TempDir(), "result.csv")
	var out string
	patiently(t, func(duration string) bool {
		_ = os.Remove(csv)
		out = p.must("", "bench", "appends", "--json", "--connections", "1,3", "--workers", "6",
			"--warmup", "20ms", "--duration", duration, "--with-limits", "--csv", csv)
		return positive(rows(t, out))
	})
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
	require.Contains(t, string(written), "benchmark,system,client,durability,disk,loop,connections,appends_per_s,mib_per_s,p50_us,p99_us,p999_us,client_cpu_us,server_cpu_us,runs,spread_percent\n")
	require.Contains(t, string(written), "appends,strandline,Go client,\"fsync, 1 of 1\",as it is,closed,1,")
	require.Empty(t, p.must("", "log", "list", "--json"), "the log that the benchmark made is gone")
}

func TestBenchMeasuresClientsInOtherLanguages(t *testing.T) {
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	p := startNode(t, t.TempDir())
	for client, name := range map[string]string{"java": "Java", "python": "Python", "rust": "Rust", "typescript": "TypeScript"} {
		t.Run(client, func(t *testing.T) {
			t.Chdir(t.TempDir())
			target := "strandline://" + p.grpc + "?client=" + client
			o := execute(t, nil, "", "bench", "appends", "--connections", "1", "--target", target)
			require.Equal(t, terminal.ExitFailed, o.code)
			require.Contains(t, o.err, "run `make clients`")

			t.Chdir(repository)
			if strings.Contains(execute(t, nil, "", "bench", "read", "--size", "1MiB", "--log", "look", "--target", target).err, "run `make clients`") {
				require.NotEqual(t, "true", os.Getenv("CI"), "the client is not here")
				t.Skip("the client is not here: `make clients`")
			}
			var out string
			patiently(t, func(duration string) bool {
				o = execute(t, nil, "", "bench", "appends", "--json", "--connections", "1,2", "--workers", "6", "--warmup", "20ms", "--duration", duration, "--target", target)
				require.Zero(t, o.code, o.err)
				out = o.out
				return positive(rows(t, out))
			})
			require.Equal(t, map[string]bool{"appends": true}, figures(rows(t, out), "benchmark"))
			require.Contains(t, out, `"client":"`+name+` client"`)
			o = execute(t, nil, "", "bench", "read", "--json", "--size", "1MiB", "--readers", "1,2", "--log", "read-"+client, "--target", target)
			require.Zero(t, o.code, o.err)
			require.Equal(t, map[string]bool{"read": true}, figures(rows(t, o.out), "benchmark"))
		})
	}
}

func TestBenchReadChecksWhatItReads(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
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
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "choose another --log")
}

func TestBenchLogsMeasuresEveryNumberOfLogs(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	var out string
	patiently(t, func(duration string) bool {
		out = p.must("", "bench", "logs", "--json", "--logs", "1,12", "--workers", "6", "--warmup", "20ms", "--duration", duration)
		return positive(rows(t, out))
	})
	var numbers []float64
	for _, row := range rows(t, out) {
		if row["benchmark"] == "logs" {
			numbers = append(numbers, row["logs"].(float64))
			require.Positive(t, row["appends_per_s"])
			require.Positive(t, row["created_s"])
		}
	}
	require.Equal(t, []float64{1, 12}, numbers)
	require.Empty(t, p.must("", "log", "list", "--json"), "the logs that the benchmark made are gone")
}

func TestBenchIdleMeasuresWhatLogsTakeOfANode(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	out := p.must("", "bench", "idle", "--json", "--logs", "5", "--settle", "1ms", "--duration", "50ms", "--data", p.data, "--http", p.http)
	row := rows(t, out)[1]
	require.Equal(t, "idle", row["benchmark"])
	require.EqualValues(t, 5, row["logs"])
	require.Greater(t, row["goroutines"], row["goroutines_without"])
	if runtime.GOOS == "linux" {
		require.Positive(t, row["disk_kib_per_log"])
	}
	require.Empty(t, p.must("", "log", "list", "--json"), "the logs that the benchmark made are gone")
}

func TestBenchFanOutMeasuresAppendsWithAndWithoutTails(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	var out string
	patiently(t, func(duration string) bool {
		out = p.must("", "bench", "fan-out", "--json", "--tails", "0,3", "--rate", "200", "--workers", "4", "--writers", "2", "--warmup", "20ms", "--duration", duration)
		return positive(rows(t, out))
	})
	all := rows(t, out)
	require.EqualValues(t, 0, all[1]["deliver_p99_us"])
	require.EqualValues(t, 3, all[2]["tails"])
	require.Positive(t, all[2]["all_p99_us"])
	require.Empty(t, p.must("", "log", "list", "--json"), "the log that the benchmark made is gone")
}

// A cache that was prepared is claimed of files that are the target's, and those
// alone are read without a log in between.
func TestBenchReadTakesNoOtherFilesForItsTargets(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	beside := t.TempDir() // has files of some server's, where a server has them by default
	require.NoError(t, os.Mkdir(filepath.Join(beside, terminal.DefaultData), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(beside, terminal.DefaultData, "0.seg"), make([]byte, 100), 0o600))
	prepared, unknown := map[string]bool{"cached": true, "uncached": true}, map[string]bool{"unknown": true}
	for _, row := range []struct {
		flags  []string
		caches map[string]bool
	}{
		{[]string{"--server", p.grpc}, prepared},
		{[]string{"--target", "strandline://" + p.grpc, "--server", p.grpc}, prepared},
		{[]string{"--target", "kafka://" + p.kafka, "--server", p.grpc}, unknown},
		{[]string{"--target", "strandline://" + p.grpc, "--server", "127.0.0.1:1"}, unknown},
		{[]string{"--target", "kafka://" + p.kafka + "?data=" + p.data}, prepared},
		{[]string{"--target", "kafka://" + p.kafka, "--data", p.data}, unknown}, // which is for --server
	} {
		args := append([]string{"bench", "read", "--json", "--size", "64KiB", "--readers", "1"}, row.flags...)
		command := program(t, args...)
		command.Dir = beside
		out, err := command.Output()
		require.NoError(t, err, args)
		all := rows(t, string(out))
		require.Equal(t, row.caches, figures(all, "cache"), args)
		require.Equal(t, row.caches["cached"], figures(all, "limit")["cat"], args)
		known := row.caches["cached"] || slices.Contains(args, "--data")
		require.Equal(t, !known, strings.Contains(all[0]["disk"].(string), "which may not be the server's disk"), args)
	}
}

func TestBenchPipelineKeepsItsLimitAndReadsBack(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	o := p.run(nil, "bench", "pipeline", "--records", "5000", "--round-trip", "0s,2ms", "--in-flight", "2,auto",
		"--flush-bytes", "20KB", "--warmup", "0s", "--duration", "1m", "--partitions", "2", "--partitioner", "roundrobin", "--data", p.data)
	require.Equal(t, terminal.ExitOK, o.code, o.err)
	require.Equal(t, 4, strings.Count(o.out, "read back"))
	require.NotContains(t, o.out, "no: ")
	require.Regexp(t, `5000 records sent, [0-9.]+ records/sec \([0-9.]+ MiB/sec ingress, `, o.err)
	require.Empty(t, p.must("", "log", "list", "--json"), "the logs are gone, those of partitions, too")
}

func TestBenchResultsBecomeAReport(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	out := filepath.Join(t.TempDir(), "results")
	list := filepath.Join(t.TempDir(), "options.txt")
	require.NoError(t, os.WriteFile(list, []byte("mode=sync,async # two\n"), 0o600))
	span := []string{"--warmup", "0s", "--duration", "150ms", "--out", out, "--data", p.data, "--json"}
	p.must("", append([]string{"bench", "matrix", "--options", list, "--repeats", "2"}, span...)...)
	p.must("", append([]string{"bench", "retention", "--retention", "1h"}, span...)...)
	p.must("", append([]string{"bench", "mixed", "--trim-every", "20ms", "--keep", "10"}, span...)...)
	p.must("", append([]string{"bench", "appends", "--connections", "2", "--rate", "500"}, span...)...)
	p.must("", append([]string{"bench", "ramdisk", "--target", "strandline://" + p.grpc + "?disk=memory"}, span...)...)

	document := filepath.Join(t.TempDir(), "benchmarks.md")
	p.must("", "bench", "report", out, "--markdown", document)
	for _, name := range []string{"report.html", "result.csv", "result.json", "charts/matrix.svg", "charts/retention.svg"} {
		require.FileExists(t, filepath.Join(out, name))
	}
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	for _, title := range []string{"The matrix of options", "Retention", "Everything at once", "Appends against connections", "fsync, 1 of 1"} {
		require.Contains(t, string(text), title)
	}
	require.FileExists(t, strings.TrimSuffix(document, ".md")+"/matrix.svg")
	require.Empty(t, p.must("", "log", "list", "--json"), "nothing is left behind")
}

func TestCtrlCReportsWhatABenchmarkHas(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir())
	results := filepath.Join(t.TempDir(), "results")
	command := program(t, "bench", "appends", "--connections", "1,2", "--warmup", "0s", "--duration", "1h",
		"--out", results, "--data", p.data, "--json", "--server", p.grpc)
	var out bytes.Buffer
	command.Stdout = &out
	require.NoError(t, command.Start())
	p.awaitAppends()
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.Error(t, command.Wait())
	require.Equal(t, terminal.ExitInterrupted, command.ProcessState.ExitCode())
	require.Equal(t, map[string]bool{"appends": true}, figures(rows(t, out.String()), "benchmark"))
	require.FileExists(t, filepath.Join(results, "report.html"))
	require.Empty(t, p.must("", "log", "list", "--json"), "the log that the benchmark made is gone")
}

func TestBenchRefusesFlagsThatWouldDoNothing(t *testing.T) {
	t.Parallel()
	const broker = "--target kafka://127.0.0.1:1"
	for args, known := range map[string]string{
		"appends --tls-ca ca.pem " + broker: "--tls-ca has no effect without --tls",
		"appends --tls":                     "--tls has no effect without a kafka:// --target",
		"ramdisk --durability memory":       "--durability has no effect without --target",
		"ramdisk --replicas 3":              "--replicas has no effect without --target",
		"ramdisk --tls":                     "--tls has no effect without --target",
		"ramdisk --data .":                  "--data has no effect without --target",
		"ramdisk --with-kafka " + broker:    "--with-kafka has no effect with --target",
		"ramdisk --ram . " + broker:         "--ram has no effect with --target",
		"ramdisk --kafka-version 4.0.0":     "--kafka-version has no effect without --with-kafka",
		"all --kafka-directory .":           "--kafka-directory has no effect without --with-kafka",
		"all --sarama145 strandline":        "--sarama145 has no effect without --with-kafka",
		"all --data .":                      "unknown flag: --data",
		"retention --check=false":           "unknown flag: --check",
		"pipeline --partitions 2 --partitioner random --partition 1": "--partition has no effect with --partitioner random",
		"mixed --trim-every 0s --keep 5":                             "--keep has no effect with --trim-every 0",
		"mixed --boots 0 --boot-every 1s":                            "--boot-every has no effect with --boots 0",
	} {
		o := execute(t, nil, "", append([]string{"bench"}, strings.Fields(args)...)...)
		require.Equal(t, terminal.ExitUsage, o.code, "%s: %s", args, o.err)
		require.Contains(t, o.err, known)
	}
}

// awaitAppends returns when so much is in the only log that a benchmark without
// warm-up has counted some of it.
func (p *process) awaitAppends() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		listed := rows(p.t, p.must("", "log", "list", "--json"))
		return len(listed) == 1 && listed[0]["end_offset"].(float64) > 2000
	}, time.Minute, 10*time.Millisecond, "nothing is appended")
}

func TestCtrlCEndsABenchmarkWhoseServerHangs(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"", "franz", "sarama"} {
		p := startNode(t, t.TempDir())
		target := "strandline://" + p.grpc
		if client != "" {
			target = "kafka://" + p.kafka + "?client=" + client
		}
		command := program(t, "bench", "appends", "--connections", "2", "--warmup", "0s", "--duration", "1h", "--json", "--target", target)
		var out bytes.Buffer
		command.Stdout = &out
		require.NoError(t, command.Start())
		p.awaitAppends()
		require.NoError(t, p.command.Process.Signal(syscall.SIGSTOP))
		require.NoError(t, command.Process.Signal(os.Interrupt))
		const shorter = 30 * time.Second // than any library takes to give up by itself
		late := time.AfterFunc(shorter, func() { _ = command.Process.Signal(syscall.SIGABRT) })
		require.Error(t, command.Wait())
		late.Stop()
		require.Equal(t, terminal.ExitInterrupted, command.ProcessState.ExitCode(), target)
		require.Equal(t, map[string]bool{"appends": true}, figures(rows(t, out.String()), "benchmark"), target)
		require.NoError(t, p.command.Process.Signal(syscall.SIGCONT))
	}
}

func TestABrokerThatCannotBeReachedIsReportedWithWhatToDo(t *testing.T) {
	encrypted := httptest.NewUnstartedServer(nil)
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	t.Chdir(t.TempDir())
	target := encrypted.Listener.Addr().String()
	for args, hint := range map[string]string{
		"--target kafka://127.0.0.1:1":               "to use another one: --target kafka://HOST:PORT\n",
		"--target kafka://127.0.0.1:1?client=sarama": "to use another one: --target kafka://HOST:PORT\n",
		"--tls --target kafka://" + target:           "to trust whoever signed its certificate: --tls-ca FILE",
		"--target kafka://" + target:                 "if this one wants encryption: --tls",
	} {
		o := execute(t, nil, "", strings.Fields("bench appends --connections 1 --duration 1s "+args)...)
		require.Equal(t, terminal.ExitUnreachable, o.code, o.err)
		require.Contains(t, o.err, hint, args)
	}
	o := execute(t, nil, "", "bench", "appends", "--target", "strandline://192.0.2.1:7171")
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Contains(t, o.err, "--insecure")
}

func TestBenchRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"bench appends --target http://127.0.0.1:1",
		"bench appends --repeats 0",
		"bench pipeline --acks 2",
		"bench pipeline --in-flight 0",
		"bench pipeline --once sometimes",
		"bench pipeline --partitioner best",
		"bench pipeline --compression foo",
		"bench pipeline --partition 3",
		"bench pipeline --partitions=-1",
		"bench pipeline --value 8B",
		"bench pipeline --records 0",
		"bench pipeline --rate=-1",
		"bench appends --rate=-1",
		"bench appends --replicas=-1",
		"bench appends --target kafka://127.0.0.1:1?client=nope",
		"bench appends --target strandline://192.0.2.1:7171",
		"bench read --value 8B",
		"bench mixed --value 16B",
		"bench mixed --writers 2 --workers 1",
		"bench mixed --tails=-1",
		"bench all --ram /does/not/exist",
		"bench all --repeats=-1",
		"bench ramdisk --ram /does/not/exist",
		"bench ramdisk --disk /does/not/exist",
		"bench matrix --options /does/not/exist",
		"bench matrix --samples /does/not/exist",
		"bench appends --tls --tls-ca /does/not/exist",
		"bench read --target kafka://127.0.0.1:1?data=/does/not/exist",
		"bench limits --target kafka://127.0.0.1:1",
		"bench limits --target kafka://127.0.0.1:1?data=/does/not/exist",
	} {
		o := execute(t, nil, "", strings.Fields(args)...)
		require.Equal(t, terminal.ExitUsage, o.code, "%s: %s", args, o.err)
		require.NotContains(t, o.out, "fdatasync", "%s: nothing is measured before", args)
	}
	o := execute(t, nil, "", "bench", "report", t.TempDir())
	require.Equal(t, terminal.ExitFailed, o.code)
	require.Contains(t, o.err, "benchmarks write them with --out")
}
