package interop

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

// python installs the packages of a manifest, and returns the interpreter that finds them.
func python(t *testing.T, manifest string) string {
	t.Helper()
	interpreter := tool(t, "python3")
	dir := cached(t, manifest, func(dir string) {
		must(t, installTime, dir, interpreter, "-m", "venv", "venv")
		must(t, installTime, dir, filepath.Join(dir, "venv", "bin", "pip"), "install", "-q", "-r", "requirements.txt")
	})
	return filepath.Join(dir, "venv", "bin", "python")
}

func TestConfluentKafka(t *testing.T) {
	interpreter := python(t, "python/requirements.txt")
	onClusters(t, func(c *cluster) {
		c.prepare("confluent")
		must(c.T, scenarioTime, "", interpreter, absolute(c.T, "python/confluent.py"), c.bootstrap, "confluent", fmt.Sprint(c.nodes))
		c.checkWritten("confluent", codecs)
	})
}

func TestKafkaPython(t *testing.T) {
	interpreter := python(t, "python/requirements.txt")
	onClusters(t, func(c *cluster) {
		c.prepare("kafka-python")
		must(c.T, scenarioTime, "", interpreter, absolute(c.T, "python/kafka_python.py"), c.bootstrap, "kafka-python", fmt.Sprint(c.nodes))
		c.checkWritten("kafka-python", codecs)
	})
}

var moving = flag.Duration("moving", 20*time.Second, "how long kafka-python produces while leaders move")

// Each record of an idempotent producer is in its log once, in order, and none waits for long.
func TestKafkaPythonProducesWhileLeadersMove(t *testing.T) {
	interpreter := python(t, "python/requirements.txt")
	c := start(t, 3)
	logs := []string{"moving-0", "moving-1", "moving-2"}
	for _, log := range logs {
		c.strandline("", "log", "create", log, "--replicas", "3")
	}
	producer := exec.Command(interpreter, absolute(t, "python/moving.py"), c.bootstrap, strings.Join(logs, ","), fmt.Sprint(moving.Seconds()))
	var said strings.Builder
	producer.Stdout, producer.Stderr = &said, &said
	require.NoError(t, producer.Start())
	t.Cleanup(func() { _ = producer.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- producer.Wait() }()
	moves := 0
	for running := true; running; moves++ {
		c.strandline("", "cluster", "transfer-leader", logs[moves%len(logs)], "--to", fmt.Sprintf("n%d", 1+moves/len(logs)%3))
		select {
		case err := <-ended:
			require.NoError(t, err, said.String())
			running = false
		case <-time.After(time.Second):
		}
	}
	t.Logf("%d moves: %s", moves, said.String())
	for i, log := range logs {
		for k, r := range c.read(log) {
			require.Equal(t, fmt.Sprint(3*k+i), r.Value, log)
		}
	}
}

// javascript installs kafkajs, and copies a script to it: packages are looked for beside the script.
func javascript(t *testing.T, script string) (node, installed string) {
	t.Helper()
	node, npm := tool(t, "node"), tool(t, "npm")
	dir := cached(t, "js/package.json", func(dir string) {
		must(t, installTime, dir, npm, "install", "--silent", "--no-audit", "--no-fund")
	})
	text, err := os.ReadFile(filepath.Join("js", script))
	require.NoError(t, err)
	installed = filepath.Join(dir, script)
	require.NoError(t, os.WriteFile(installed, text, 0o644))
	return node, installed
}

func TestKafkaJS(t *testing.T) {
	node, script := javascript(t, "scenario.mjs")
	onClusters(t, func(c *cluster) {
		c.prepare("kafkajs")
		must(c.T, scenarioTime, "", node, script, c.bootstrap, "kafkajs", fmt.Sprint(c.nodes))
		c.checkWritten("kafkajs", codecs)
	})
}

// kcat can neither create nor trim.
func TestKcat(t *testing.T) {
	kcat := tool(t, "kcat")
	onClusters(t, func(c *cluster) {
		run := func(args ...string) string {
			return must(c.T, scenarioTime, "", kcat, append([]string{"-b", c.bootstrap}, args...)...)
		}
		c.prepare("kcat")
		var beforeLast int64
		for _, codec := range codecs {
			beforeLast = between()
			var lines []string
			for i := range perCodec {
				lines = append(lines, fmt.Sprintf("%s-%d", codec, i))
			}
			input := filepath.Join(c.TempDir(), "lines")
			require.NoError(c, os.WriteFile(input, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			run("-P", "-t", "kcat", "-p", "0", "-z", codec, "-X", "enable.idempotence=true", "-l", input)
		}
		want := expected(codecs)
		last := len(want) - perCodec

		read := []string{"-e", "-q", "-f", "%o %s\n"}
		require.Equal(c, lines(want), run(append(read, "-C", "-t", "kcat", "-p", "0", "-o", "beginning")...))
		require.Equal(c, lines(want[last:]), run(append(read, "-C", "-t", "kcat", "-p", "0", "-o", fmt.Sprintf("s@%d", beforeLast))...))
		require.Equal(c, lines(want), run(append(read, "-X", "auto.offset.reset=earliest", "-G", "kcat", "kcat")...))
		require.Empty(c, run(append(read, "-X", "auto.offset.reset=earliest", "-G", "kcat", "kcat")...), "the group has committed")
		require.Contains(c, run("-Q", "-t", fmt.Sprintf("kcat:0:%d", beforeLast)), fmt.Sprintf("offset %d", last))
		require.Contains(c, run("-L"), `topic "kcat" with 1 partitions`)
		c.checkWritten("kcat", codecs)
	})
}

// lines are records as kcat prints them here.
func lines(records []record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%d %s\n", r.Offset, r.Value)
	}
	return b.String()
}

// jars installs the Java client and Kafka's tools.
func jars(t *testing.T) (java, dir string) {
	t.Helper()
	java, mvn := tool(t, "java"), tool(t, "mvn")
	return java, cached(t, "java/pom.xml", func(dir string) {
		must(t, installTime, dir, mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
	})
}

func TestJava(t *testing.T) {
	java, dir := jars(t)
	scenario := absolute(t, "java/Scenario.java")
	onClusters(t, func(c *cluster) {
		c.prepare("java")
		must(c.T, scenarioTime, dir, java, "-Xmx512m", "-cp", "lib/*", scenario, c.bootstrap, "java", fmt.Sprint(c.nodes))
		c.checkWritten("java", codecs)
	})
}

// Clients that are running when a topic is deleted and created again continue with the
// new one.
func TestJavaFollowsATopicThatIsMadeAnew(t *testing.T) {
	java, dir := jars(t)
	program := absolute(t, "java/Recreate.java")
	onClusters(t, func(c *cluster) {
		command := exec.Command(java, "-Xmx512m", "-cp", "lib/*", program, c.bootstrap)
		command.Dir = dir
		in, err := command.StdinPipe()
		require.NoError(c, err)
		out, err := command.StdoutPipe()
		require.NoError(c, err)
		var said strings.Builder
		command.Stderr = &said
		require.NoError(c, command.Start())
		stop := time.AfterFunc(suiteTime, func() { _ = command.Process.Kill() })
		defer stop.Stop()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !strings.HasSuffix(lines.Text(), "is over") {
				continue
			}
			for i := range 3 * (c.nodes / 3) {
				c.strandline("", "cluster", "transfer-leader", "recreated", "--to", fmt.Sprintf("n%d", i+1))
			}
			_, err := in.Write([]byte("\n"))
			require.NoError(c, err)
		}
		require.NoError(c, command.Wait(), "%s", said.String())
	})
}

// Kafka's own command line tools.
func TestJavaTools(t *testing.T) {
	java, dir := jars(t)
	onClusters(t, func(c *cluster) {
		run := func(class string, args ...string) string {
			return must(c.T, scenarioTime, dir, java, append([]string{"-Xmx512m", "-cp", "lib/*", "org.apache.kafka.tools." + class}, args...)...)
		}
		server := []string{"--bootstrap-server", c.bootstrap}
		run("TopicCommand", append(server, "--create", "--topic", "tools", "--partitions", "2", "--replication-factor", fmt.Sprint(c.nodes))...)
		require.Contains(c, run("TopicCommand", append(server, "--describe", "--topic", "tools")...), "PartitionCount: 2")
		total := 0
		produce := func(count int, properties ...string) {
			args := append(server, "--topic", "tools", "--num-records", fmt.Sprint(count), "--record-size", "1024",
				"--throughput", "-1", "--command-property")
			out := run("ProducerPerformance", append(args, properties...)...)
			require.Contains(c, out, fmt.Sprintf("%d records sent", count))
			total += count
		}
		for _, codec := range codecs {
			produce(2000, "acks=all", "compression.type="+codec)
		}
		produce(2000, "acks=1", "enable.idempotence=false")
		produce(2000, "acks=0", "enable.idempotence=false")
		produce(20_000, "acks=all")
		// acks=0 is not answered: wait for its records by reading them.
		out := run("ConsumerPerformance", append(server, "--topic", "tools", "--messages", fmt.Sprint(total), "--timeout", "20000")...)
		require.Contains(c, out, fmt.Sprintf(", %d,", total))
		require.Contains(c, run("GetOffsetShell", append(server, "--topic", "tools", "--time", "-2")...), "tools:0:0")
		require.Contains(c, run("consumer.group.ConsumerGroupCommand", append(server, "--list")...), "perf-consumer")
		trim := filepath.Join(c.TempDir(), "trim.json")
		require.NoError(c, os.WriteFile(trim, []byte(`{"version":1,"partitions":[{"topic":"tools","partition":0,"offset":5}]}`), 0o644))
		require.Contains(c, run("DeleteRecordsCommand", append(server, "--offset-json-file", trim)...), "low_watermark: 5")

		// Groups have committed, so there is an internal topic, which all of these
		// describe too.
		require.Contains(c, run("TopicCommand", append(server, "--describe")...), "__consumer_offsets")
		require.Contains(c, run("GetOffsetShell", server...), "__consumer_offsets:0:0")
		require.Contains(c, run("GetOffsetShell", append(server, "--topic", "tools", "--time", "max-timestamp")...), "tools:0:")
		require.Contains(c, run("consumer.group.ConsumerGroupCommand", append(server, "--describe", "--all-groups")...), "tools")
		require.Contains(c, run("MetadataQuorumCommand", append(server, "describe", "--status")...), "LeaderId:")
		elected := run("LeaderElectionCommand", append(server, "--election-type", "preferred", "--all-topic-partitions")...)
		require.NotContains(c, elected, "Error")
		require.Contains(c, run("LogDirsCommand", append(server, "--describe", "--topic-list", "tools")...), `"tools-0"`)
		require.Contains(c, run("ClusterTool", append([]string{"cluster-id"}, server...)...), "Cluster ID:")
		require.Contains(c, run("TransactionsCommand", append(server, "describe-producers", "--topic", "tools", "--partition", "0")...), "ProducerId")
		config := func(args ...string) string {
			return must(c.T, scenarioTime, dir, java, append([]string{"-Xmx512m", "-cp", "lib/*", "kafka.admin.ConfigCommand"}, append(server, args...)...)...)
		}
		config("--alter", "--topic", "tools", "--add-config", "cleanup.policy=compact,segment.bytes=1048576")
		require.Contains(c, config("--describe", "--topic", "tools"), "segment.bytes=1048576")
		require.Contains(c, config("--describe", "--broker", "1", "--all"), "auto.create.topics.enable=false")
		run("TopicCommand", append(server, "--delete", "--topic", "tools")...)
	})
}
