package rpc

import (
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/peer"

	"strandline.dev/internal/budget"
)

// coming is a listener of connections that are made one by one.
type coming struct {
	net.Listener
	conns chan net.Conn
}

func (c coming) Accept() (net.Conn, error) {
	conn, ok := <-c.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

type comingFrom struct {
	net.Conn
	ip string
}

func (c comingFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }

func TestClientsThatHaveProvedNothingLeaveThePortToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := coming{conns: make(chan net.Conn)}
		callers := fakeCallers{}
		l := &limitedListener{
			Listener: from, limit: 16, open: new(atomic.Int64), inflow: budget.NewInflow(1 << 20), logger: slog.New(slog.DiscardHandler), callers: callers, unproved: &Unproved{},
		}
		s := &Server{options: Options{Callers: callers}}
		open := map[net.Conn]string{} // by the client's side
		accepted := make(chan net.Conn, 1)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- conn
			}
		}()
		come := func(ip, authorization string) (kept bool) {
			here, there := net.Pipe()
			open[there] = ip
			from.conns <- comingFrom{here, ip}
			synctest.Wait()
			select {
			case conn := <-accepted:
				s.identify(peer.NewContext(says(authorization), &peer.Peer{Addr: conn.RemoteAddr()}))
				return true
			default:
				return false
			}
		}
		count := func() map[string]int {
			synctest.Wait()
			all := map[string]int{}
			for conn, ip := range open {
				closed := make(chan struct{})
				go func() {
					_, _ = conn.Read(make([]byte, 1))
					close(closed)
				}()
				synctest.Wait()
				select {
				case <-closed:
					delete(open, conn)
				default:
					all[ip]++
				}
			}
			return all
		}
		const flood, honest, proved = "2001:db8::1", "192.0.2.1", "192.0.2.9"
		for range 20 {
			come(flood, "")
		}
		require.Equal(t, map[string]int{flood: 4}, count(), "a quarter of the port")
		require.True(t, come(honest, ""))
		require.Equal(t, map[string]int{flood: 3, honest: 1}, count(), "the oldest of the address with most has made way")
		for range 12 {
			require.True(t, come(proved, "alice"))
		}
		require.True(t, come(proved, "alice"), "the port is full, and one that has proved nothing makes way")
		require.Equal(t, map[string]int{flood: 2, honest: 1, proved: 13}, count())
		require.EqualValues(t, 16, l.open.Load())
		for conn := range open {
			require.NoError(t, conn.Close())
		}
		close(from.conns)
	})
}
