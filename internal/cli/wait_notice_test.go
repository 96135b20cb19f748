package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestACommandThatLostItsServerSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startNode(t, data, "--grpc", ownPort())
	server.must("", "log", "create", "orders")
	server.must("one\n", "append", "orders")

	follow := program(t, "read", "orders", "--follow", "--server", server.grpc)
	records, noticesOfRead := piped(t, follow.StdoutPipe), piped(t, follow.StderrPipe)
	appending := program(t, "append", "orders", "--server", server.grpc)
	input, err := appending.StdinPipe()
	require.NoError(t, err)
	noticesOfAppend := piped(t, appending.StderrPipe)
	require.NoError(t, follow.Start())
	require.NoError(t, appending.Start())
	require.Equal(t, "one", nextLine(t, records))
	write(t, input, "two\n")
	require.Equal(t, "two", nextLine(t, records))

	require.NoError(t, server.command.Process.Kill())
	_ = server.command.Wait()
	write(t, input, "three\n")
	for _, notices := range []*bufio.Reader{noticesOfRead, noticesOfAppend} {
		require.Contains(t, nextLine(t, notices), "waiting for log orders, and trying on (Ctrl-C stops): ")
	}
	startNode(t, data, "--grpc", server.grpc)
	for _, notices := range []*bufio.Reader{noticesOfRead, noticesOfAppend} {
		require.Equal(t, "strandline: log orders answers again", nextLine(t, notices))
	}
	require.Equal(t, "three", nextLine(t, records))
	require.NoError(t, input.Close())
	require.NoError(t, appending.Wait())
	require.NoError(t, follow.Process.Kill())
	_ = follow.Wait()
}

// threeNodes are processes that form a cluster.
func threeNodes(t *testing.T) []*process {
	t.Helper()
	var nodes []*process
	var peers, addresses []string
	for _, name := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", ownPort())
		require.NoError(t, err)
		addresses = append(addresses, l.Addr().String())
		peers = append(peers, name+"="+l.Addr().String())
		require.NoError(t, l.Close())
	}
	for i, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, startNode(t, t.TempDir(), "--node-name", name, "--grpc", addresses[i], "--peers", strings.Join(peers, ",")))
	}
	nodes[0].mustReach("cluster", "init")
	return nodes
}

func TestWithoutAMajorityACommandSaysThatItWaitsAndThatNothingHappened(t *testing.T) {
	t.Parallel()
	nodes := threeNodes(t)
	left := nodes[0]
	left.must("", "log", "create", "orders")
	for _, n := range nodes[1:] {
		require.NoError(t, n.command.Process.Kill())
		_ = n.command.Wait()
	}

	o := left.run(strings.NewReader("x\n"), "append", "orders")
	require.Equal(t, terminal.ExitUnreachable, o.code, o.err)
	require.Contains(t, o.err, "waiting for log orders, and trying on (Ctrl-C stops): ")
	require.Contains(t, o.err, "cluster status")

	create := program(t, "log", "create", "more", "--server", left.grpc)
	notices := piped(t, create.StderrPipe)
	require.NoError(t, create.Start())
	require.Equal(t, "strandline: waiting for the cluster, and trying on (Ctrl-C stops): no answer yet", nextLine(t, notices))
	require.NoError(t, create.Process.Kill())
	_ = create.Wait()
}

func piped(t *testing.T, pipe func() (io.ReadCloser, error)) *bufio.Reader {
	t.Helper()
	stream, err := pipe()
	require.NoError(t, err)
	return bufio.NewReader(stream)
}

func nextLine(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

func write(t *testing.T, out io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(out, text)
	require.NoError(t, err)
}

// Commands that wait for nodes to do something say what is left, not that the cluster does not answer.
func TestADrainAndARebalanceSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	nodes := threeNodes(t)
	first := nodes[0]
	first.must("", "log", "create", "alone", "--replicas", "1")
	on := regexp.MustCompile(`(?m)^alone .* ([abc]) +voter`).FindStringSubmatch(first.must("", "cluster", "status"))
	require.NotNil(t, on)

	o := first.run(nil, "cluster", "drain", on[1], "--timeout", "5s")
	require.Equal(t, terminal.ExitFailed, o.code, o.out)
	require.Contains(t, o.err, "strandline: node "+on[1]+" is drained; waiting until it may be stopped (Ctrl-C ends only the waiting): ")
	require.Regexp(t, "node "+on[1]+" is drained, but must not be stopped yet after 5s: .*log alone is on this node alone", o.err)
	require.NotContains(t, o.err, terminal.ErrNoAnswer.Error())
	require.Contains(t, first.must("", "cluster", "undrain", on[1]), "node "+on[1]+" may lead logs again, and gets its share of them within seconds\nto see the leaders: ")
	o = first.run(nil, "cluster", "drain", "x")
	require.Contains(t, o.err, `node "x" does not exist; nodes: a, b, c`)

	// The logs of one node go, so that others have more.
	for i := range 6 {
		first.must("", "log", "create", fmt.Sprint("one", i), "--replicas", "1")
	}
	for _, found := range regexp.MustCompile(`(?m)^(alone|one\d) .* a +voter`).FindAllStringSubmatch(first.must("", "cluster", "status"), -1) {
		first.must("", "log", "delete", found[1])
	}
	require.Regexp(t, `^the cluster moves replicas, some at a time: \d left\nto wait until all are moved: .* cluster rebalance --wait`, first.must("", "cluster", "rebalance"))
	o = first.run(nil, "cluster", "rebalance", "--wait")
	require.Equal(t, "replicas are spread evenly over the nodes that can be reached\n", o.out)
	require.NotContains(t, o.err, terminal.ErrNoAnswer.Error())
}
