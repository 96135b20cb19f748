package rpc

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that leaves says nothing of the file that was being sent to it.
func TestOnlyWhatIsWrongWithAFileIsItsFailure(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(path, make([]byte, 8<<20), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	connect := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		server, err = l.Accept()
		require.NoError(t, err)
		return client, server
	}

	client, server := connect()
	defer client.Close()
	send, _ := FileSender(server)
	_, err = send(file, 8<<20, 1) // behind its end
	require.Error(t, err)
	require.True(t, FileFailed(err), err)
	require.NoError(t, server.Close())
	_, err = send(file, 0, 1)
	require.Error(t, err)
	require.False(t, FileFailed(err), err)

	client, server = connect()
	defer server.Close()
	send, _ = FileSender(server)
	require.NoError(t, client.(*net.TCPConn).SetLinger(0))
	require.NoError(t, client.Close()) // resets the connection
	for err = nil; err == nil; {
		_, err = send(file, 0, 8<<20)
	}
	require.False(t, FileFailed(err), err)
}
