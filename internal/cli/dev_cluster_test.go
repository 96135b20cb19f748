package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

type devNode struct{ Node, GRPC, Kafka string }

type devCluster struct {
	Cluster string
	Nodes   []struct{ Name string }
}

// dev starts three nodes and waits until they are a cluster. The process that
// it returns is asked at the first of them.
func dev(t *testing.T, data string, flags ...string) (*process, []devNode, devCluster) {
	t.Helper()
	args := []string{"dev", "--json", "--data", data, "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	command := program(t, append(args, flags...)...)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	var said lockedBuffer
	command.Stderr = &said
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		if command.ProcessState == nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
		if t.Failed() {
			t.Logf("the nodes said:\n%s", said.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err, "the nodes ended before they were a cluster: %s", said.String())
	var announced struct {
		Nodes   []devNode
		Cluster devCluster
	}
	require.NoError(t, json.Unmarshal(line, &announced))
	require.Len(t, announced.Nodes, 3)
	return &process{t: t, data: data, command: command, grpc: announced.Nodes[0].GRPC}, announced.Nodes, announced.Cluster
}

func TestDevIsAClusterOfThreeNodes(t *testing.T) {
	t.Parallel()
	p, nodes, cluster := dev(t, t.TempDir())
	require.NotEmpty(t, cluster.Cluster)
	require.Len(t, cluster.Nodes, 3)
	p.must("", "log", "create", "orders", "--replicas", "3")
	p.must("one\ntwo\n", "append", "orders")
	p.must("", "cluster", "status", "--wait-healthy")
	for _, name := range []string{"b", "c", "a"} {
		p.mustReach("cluster", "transfer-leader", "orders", "--to", name)
		p.must(name+"\n", "append", "orders")
	}
	const all = "one\ntwo\nb\nc\na\n"
	require.Equal(t, all, p.must("", "read", "orders", "--from-follower"))
	for _, n := range nodes {
		p.grpc = n.GRPC
		require.Equal(t, all, p.must("", "read", "orders", "--consistency", "at-least=5"), "from node %s", n.Node)
	}
	require.Equal(t, terminal.ExitOK, p.terminate())
}

// Its nodes end one after the other, and the others learn of it: that is no fault.
func TestDevThatIsInterruptedReportsNoFault(t *testing.T) {
	t.Parallel()
	p, _, _ := dev(t, t.TempDir())
	p.must("", "log", "create", "cache", "--durability", "memory", "--replicas", "3")
	p.must("one\ntwo\n", "append", "cache")
	p.must("", "cluster", "status", "--wait-healthy")
	require.NoError(t, p.command.Process.Signal(os.Interrupt))
	require.Equal(t, terminal.ExitOK, p.wait())
	require.NotContains(t, p.command.Stderr.(*lockedBuffer).String(), "ERROR")
}

func TestDevThatIsInterruptedBeforeItsClusterFormedEndsCleanly(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	command := program(t, "dev", "--data", data, "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")
	require.NoError(t, command.Start())
	_ = command.Process.Signal(syscall.SIGTERM)
	_ = command.Wait()
	// Before the handler is in place the signal kills; after, it ends with 0.
	if code := command.ProcessState.ExitCode(); code != -1 {
		require.Equal(t, terminal.ExitOK, code)
	}
	p, nodes, _ := dev(t, data, "--kafka", "none")
	for _, n := range nodes {
		require.Equal(t, "none", n.Kafka)
	}
	require.Equal(t, terminal.ExitOK, p.terminate())
}

func TestDevIsForThisMachine(t *testing.T) {
	t.Parallel()
	require.Equal(t, terminal.ExitUsage, execute(t, nil, "", "dev", "--kafka", "10.0.0.1:9092").code)
	require.Equal(t, terminal.ExitUsage, execute(t, nil, "", "dev", "--kafka", "none", "--grpc", "none").code, "the others are needed")
}
