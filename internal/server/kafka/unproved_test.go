package kafkaserver

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
)

// comingFrom is a connection from an address.
type comingFrom struct {
	net.Conn
	ip string
}

func (c comingFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }

func TestClientsThatHaveProvedNothingLeaveThePortToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &openedNode{rules: access.Compile(access.List{}), proves: "192.0.2.9"}
		n.enforced.Store(true)
		s := New(n, Options{MaxConnections: 16, Logger: slog.New(slog.DiscardHandler)})
		come := func(ip string) (kept bool) {
			here, there := net.Pipe()
			t.Cleanup(func() { _ = there.Close() })
			s.take(comingFrom{here, ip})
			synctest.Wait()
			return s.has(here)
		}
		count := func() map[string]int {
			s.mu.Lock()
			defer s.mu.Unlock()
			all := map[string]int{}
			for c := range s.connections {
				all[c.conn.(comingFrom).ip]++
			}
			return all
		}
		const flood, honest, proved = "2001:db8::1", "192.0.2.1", "192.0.2.9"
		for range 20 {
			come(flood)
		}
		require.Equal(t, map[string]int{flood: 4}, count(), "a quarter of the port")
		require.True(t, come(honest))
		require.Equal(t, map[string]int{flood: 3, honest: 1}, count(), "the oldest of the address with most has made way")
		require.True(t, come(honest))
		require.False(t, come(honest), "they have as many")
		require.Equal(t, map[string]int{flood: 2, honest: 2}, count())
		time.Sleep(1100 * time.Millisecond)
		require.True(t, come(honest), "those that are there have had their time")

		for range 12 {
			require.True(t, come(proved))
		}
		require.True(t, come(proved), "the port is full, and one that has proved nothing makes way")
		require.Equal(t, 13, count()[proved])
		require.Len(t, s.connections, 16)
		n.enforced.Store(false)
		require.False(t, come(proved), "where rights are not enforced, all are alike")

		s.cut(func(*connection) bool { return true })
		synctest.Wait()
		require.Empty(t, s.connections)
		n.enforced.Store(true)
		require.False(t, s.unproved.Crowded(4), "those that have gone are not counted")
		require.False(t, s.unproved.MakeRoom(&net.TCPAddr{}))
	})
}

// has reports whether a connection is served.
func (s *Server) has(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.connections {
		if from, ok := c.conn.(comingFrom); ok && from.Conn == conn {
			return true
		}
	}
	return false
}
