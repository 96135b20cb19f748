package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandThatLostItsServerSaysSoAndGoesOn(t *testing.T) {
	data := t.TempDir()
	server := serve(t, data)
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
	serve(t, data, "--grpc", server.grpc)
	for _, notices := range []*bufio.Reader{noticesOfRead, noticesOfAppend} {
		require.Equal(t, "strandline: log orders answers again", nextLine(t, notices))
	}
	require.Equal(t, "three", nextLine(t, records))
	require.NoError(t, input.Close())
	require.NoError(t, appending.Wait())
	require.NoError(t, follow.Process.Kill())
	_ = follow.Wait()
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
