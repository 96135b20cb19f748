package wire

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatchedConnectionsAreCountedEachByItself(t *testing.T) {
	c := NewCounter(Kafka)
	request := kafkaMessage(uint16(kafkaProduce), uint16(9), uint32(1))
	answer := kafkaMessage(uint32(1))
	for range 2 {
		client, server := net.Pipe()
		client = c.Watch(client)
		answered := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(server, make([]byte, len(request)))
			if err == nil {
				_, err = server.Write(answer)
			}
			answered <- err
		}()
		_, err := client.Write(request)
		require.NoError(t, err)
		_, err = io.ReadFull(client, make([]byte, len(answer)))
		require.NoError(t, err)
		require.NoError(t, <-answered)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
	counts, err := c.Counts()
	require.NoError(t, err)
	require.Equal(t, Counts{Requests: 2, Answers: 2, Most: 1, Up: int64(2 * len(request)), Down: int64(2 * len(answer))}, counts)
	require.EqualValues(t, 2, c.Latency().TotalCount())
}
