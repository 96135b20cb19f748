package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scenarioTime bounds what one client does with one cluster, installTime the
// installation of one.
const (
	scenarioTime = 2 * time.Minute
	installTime  = 5 * time.Minute
)

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}

func python(t *testing.T) string {
	t.Helper()
	interpreter := tool(t, "python3")
	dir := cached(t, "python", func(dir string) {
		must(t, installTime, dir, interpreter, "-m", "venv", "venv")
		must(t, installTime, dir, filepath.Join(dir, "venv", "bin", "pip"), "install", "-q", "-r", absolute(t, "python/requirements.txt"))
	})
	return filepath.Join(dir, "venv", "bin", "python")
}

func TestConfluentKafka(t *testing.T) {
	interpreter := python(t)
	onClusters(t, func(c *cluster) {
		c.prepare("confluent")
		must(c.T, scenarioTime, "", interpreter, absolute(c.T, "python/confluent.py"), c.bootstrap, "confluent", fmt.Sprint(c.nodes))
		c.checkWritten("confluent", codecs)
	})
}

func TestKafkaPython(t *testing.T) {
	interpreter := python(t)
	onClusters(t, func(c *cluster) {
		c.prepare("kafka-python")
		must(c.T, scenarioTime, "", interpreter, absolute(c.T, "python/kafka_python.py"), c.bootstrap, "kafka-python", fmt.Sprint(c.nodes))
		c.checkWritten("kafka-python", codecs)
	})
}

func TestKafkaJS(t *testing.T) {
	node, npm := tool(t, "node"), tool(t, "npm")
	dir := cached(t, "js", func(dir string) {
		manifest, err := os.ReadFile("js/package.json")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o644))
		must(t, installTime, dir, npm, "install", "--silent", "--no-audit", "--no-fund")
	})
	script, err := os.ReadFile("js/scenario.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scenario.mjs"), script, 0o644))
	onClusters(t, func(c *cluster) {
		c.prepare("kafkajs")
		must(c.T, scenarioTime, dir, node, "scenario.mjs", c.bootstrap, "kafkajs", fmt.Sprint(c.nodes))
		c.checkWritten("kafkajs", codecs[:3])
	})
}

func TestKcat(t *testing.T) {
	kcat := tool(t, "kcat")
	onClusters(t, func(c *cluster) {
		c.prepare("kcat")
		for _, codec := range codecs {
			var lines []string
			for i := range perCodec {
				lines = append(lines, fmt.Sprintf("%s-%d", codec, i))
			}
			input := filepath.Join(c.TempDir(), "lines")
			require.NoError(c, os.WriteFile(input, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			must(c.T, scenarioTime, "", kcat, "-P", "-b", c.bootstrap, "-t", "kcat", "-p", "0", "-z", codec, "-X", "enable.idempotence=true", "-l", input)
		}
		c.checkWritten("kcat", codecs)
		out := must(c.T, scenarioTime, "", kcat, "-C", "-b", c.bootstrap, "-t", "kcat", "-o", "beginning", "-e", "-q", "-f", "%o %s\n")
		require.Equal(c, "0 grpc-0\n1 grpc-1\n", out[:18])
		require.Len(c, strings.Split(strings.TrimSpace(out), "\n"), written+perCodec*len(codecs))
		require.Contains(c, must(c.T, scenarioTime, "", kcat, "-L", "-b", c.bootstrap), `topic "kcat" with 1 partitions`)
		at := must(c.T, scenarioTime, "", kcat, "-Q", "-b", c.bootstrap, "-t", fmt.Sprintf("kcat:0:%d", time.Now().Add(-time.Hour).UnixMilli()))
		require.Contains(c, at, "offset 0")
	})
}

func TestJava(t *testing.T) {
	java, mvn := tool(t, "java"), tool(t, "mvn")
	dir := cached(t, "java", func(dir string) {
		project, err := os.ReadFile("java/pom.xml")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pom.xml"), project, 0o644))
		must(t, installTime, dir, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
	})
	onClusters(t, func(c *cluster) {
		run := func(class string, args ...string) string {
			return must(c.T, scenarioTime, dir, java, append([]string{"-Xmx512m", "-cp", "lib/*", "org.apache.kafka.tools." + class}, args...)...)
		}
		server := []string{"--bootstrap-server", c.bootstrap}
		run("TopicCommand", append(server, "--create", "--topic", "java", "--partitions", "2", "--replication-factor", fmt.Sprint(c.nodes))...)
		require.Contains(c, run("TopicCommand", append(server, "--describe", "--topic", "java")...), "PartitionCount: 2")
		const count = "20000"
		for _, codec := range codecs {
			for _, acks := range []string{"all", "1", "0"} {
				idempotent := fmt.Sprint(acks == "all")
				out := run("ProducerPerformance", "--topic", "java", "--num-records", "2000", "--record-size", "1024", "--throughput", "-1", "--producer-props",
					"bootstrap.servers="+c.bootstrap, "acks="+acks, "compression.type="+codec, "enable.idempotence="+idempotent)
				require.Contains(c, out, "2000 records sent")
			}
		}
		run("ProducerPerformance", "--topic", "java", "--num-records", count, "--record-size", "1024", "--throughput", "-1", "--producer-props",
			"bootstrap.servers="+c.bootstrap, "acks=all")
		out := run("ConsumerPerformance", append(server, "--topic", "java", "--messages", "50000", "--timeout", "20000")...)
		require.Contains(c, out, ", 50000,")
		require.Contains(c, run("GetOffsetShell", append(server, "--topic", "java", "--time", "-2")...), "java:0:0")
		require.Contains(c, run("consumer.group.ConsumerGroupCommand", append(server, "--list")...), "perf-consumer")
		trim := filepath.Join(c.TempDir(), "trim.json")
		require.NoError(c, os.WriteFile(trim, []byte(`{"version":1,"partitions":[{"topic":"java","partition":0,"offset":5}]}`), 0o644))
		require.Contains(c, run("DeleteRecordsCommand", append(server, "--offset-json-file", trim)...), "low_watermark: 5")
	})
}
