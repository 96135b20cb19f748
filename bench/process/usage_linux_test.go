package process

import (
	"math"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessorTimeIsThatOfWhoeverListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	id, found := listener(l.Addr().String())
	require.True(t, found)
	require.Equal(t, os.Getpid(), id)
	usage := Usage([]string{l.Addr().String()})
	for own, servers := usage(); ; {
		if ownLater, later := usage(); later > servers && ownLater > own {
			break // this loop takes some
		}
	}
	own, _ := usage()
	end := Helper(math.MaxInt32)
	unknown, _ := usage()
	require.Equal(t, Unknown, unknown, "there is no such process")
	end()
	end = Helper(os.Getppid())
	helped, _ := usage()
	require.GreaterOrEqual(t, helped, own)
	end()
	require.NoError(t, l.Close())
	_, servers := Usage([]string{l.Addr().String()})()
	require.Equal(t, Unknown, servers, "nobody listens")
	_, servers = Usage([]string{"192.0.2.1:7171"})()
	require.Equal(t, Unknown, servers, "not this machine")
}
