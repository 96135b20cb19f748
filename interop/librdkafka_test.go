package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rdkafkaNotServed are tests of librdkafka that need what this server, or this test,
// does not have.
var rdkafkaNotServed = []string{
	"0012", "0015", "0029", "0054", "0056", "0057", // topics created when asked for have four partitions there
	"0052", "0077", "0109", // Kafka's scripts and ZooKeeper
	"0081", // access control
	"0086", // expects that a message is in flight when the connection is slowed down
	"0092", // message.format.version
	"0103", // transactions
}

const (
	buildTime   = 20 * time.Minute
	rdkafkaTime = 20 * time.Minute
)

// librdkafka's own tests, in its quick mode, from the source that the system's package
// is built of.
func TestLibrdkafkaSuite(t *testing.T) {
	tool(t, "g++")
	apt := tool(t, "apt-get")
	dir := cached(t, "librdkafka/build.sh", func(dir string) {
		must(t, buildTime, dir, "sh", "build.sh", apt)
	})
	c := startWith(t, 1, func(int) []string { return []string{"--kafka-auto-create"} })
	tests := filepath.Join(dir, "source", "tests")
	require.NoError(t, os.WriteFile(filepath.Join(tests, "test.conf"), []byte("bootstrap.servers="+c.bootstrap+"\n"), 0o644))
	suite := exec.CommandContext(t.Context(), "./test-runner", "-Q", "-p2")
	suite.Dir = tests
	suite.Env = append(os.Environ(), "LD_LIBRARY_PATH=../src:../src-cpp", "CI=true", "TEST_KAFKA_VERSION=2.8.0",
		"TESTS_SKIP="+strings.Join(rdkafkaNotServed, ","))
	stop := time.AfterFunc(rdkafkaTime, func() { _ = suite.Process.Kill() })
	defer stop.Stop()
	out, err := suite.CombinedOutput()
	require.NoError(t, err, "%s", out[max(0, len(out)-50_000):])
	t.Log(fmt.Sprintf("%d passed, %d skipped", strings.Count(string(out), " PASSED ======"), strings.Count(string(out), " SKIPPED ======")))
}
