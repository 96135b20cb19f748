package interop

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toxiproxy is a proxy between Sarama's tests and the brokers, and breaks connections.
const toxiproxy = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"

// saramaNotServed are Sarama's functional tests that need what this server does not
// have, or a way to start and stop brokers that only Docker gives them.
var saramaNotServed = []string{
	"TestFuncTxn.*", "TestFuncListTransactions", "TestFuncDescribeTransactions", "TestFuncInitProducerId3", // transactions
	"TestFuncAdminUpdateFeatures", "TestFuncAdminQuotas", "TestFuncAdminAlterPartitionReassignments",
	"TestFuncAdminIncrementalAlterConfigs",                                        // changes settings of a broker
	"TestFuncAdminListConsumerGroupOffsets", "TestFuncIdempotentBufferedSequence", // Docker
}

// All of Sarama's functional tests but for saramaNotServed, against five nodes, each
// behind a proxy.
func TestSaramaSuite(t *testing.T) {
	const nodes = 5
	proxied := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 29090+i) } // as the tests have it
	startWith(t, nodes, func(i int) []string { return []string{"--kafka-advertise", proxied(i)} })

	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", toxiproxy)
	install.Env = append(os.Environ(), "GOBIN="+bin)
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	port := freePort(t)
	proxy := exec.Command(filepath.Join(bin, "server"), "-port", fmt.Sprint(port))
	require.NoError(t, proxy.Start())
	t.Cleanup(func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
	})
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	for i := 1; i <= nodes; i++ {
		body := fmt.Sprintf(`{"name":"kafka%d","listen":%q,"upstream":%q,"enabled":true}`, i, proxied(i), kafkaAddress(nodes, i))
		require.Eventually(t, func() bool {
			r, err := http.Post(at+"/proxies", "application/json", bytes.NewReader([]byte(body)))
			if err != nil {
				return false
			}
			_ = r.Body.Close()
			return r.StatusCode == http.StatusCreated
		}, time.Minute, 50*time.Millisecond)
	}

	found, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/IBM/sarama").Output()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "sarama")
	require.NoError(t, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(found)))))
	suite := exec.CommandContext(t.Context(), "go", "test", "-tags", "functional", "-run", "^TestFunc", "-v", "-count=1", "-timeout=15m",
		"-skip", "^("+strings.Join(saramaNotServed, "|")+")$", ".")
	suite.Dir = dir
	suite.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "TOXIPROXY_ADDR="+at, "KAFKA_VERSION=4.1.0")
	out, err = suite.CombinedOutput()
	require.NoError(t, err, "%s", out[max(0, len(out)-50_000):])
	t.Log(verdicts(string(out)))
}
