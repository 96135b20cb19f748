package kafkaserver

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/identity"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/kafka/backend"
)

// doubtingNode believes nobody any more.
type doubtingNode struct {
	backend.Node
	rules *access.Rules
}

func (n doubtingNode) Rules() *access.Rules      { return n.rules }
func (doubtingNode) Believed(*guard.Holder) bool { return false }
func (doubtingNode) Enforced() bool              { return false }

func (doubtingNode) Identify(identity.Principal, net.Addr, string) (*guard.Holder, *record.Refusal) {
	return &guard.Holder{}, nil
}

// slowlyClosed is a connection as TLS has it whose client does not read: its goodbye takes seconds.
type slowlyClosed struct {
	net.Conn
	closing, release chan struct{}
}

func (c slowlyClosed) Close() error {
	c.closing <- struct{}{}
	<-c.release
	return c.Conn.Close()
}

// openedNode enforces rights or does not, and believes whoever comes.
type openedNode struct {
	backend.Node
	rules    *access.Rules
	enforced atomic.Bool
	proves   string // the address of clients that show a certificate
}

func (n *openedNode) Rules() *access.Rules                    { return n.rules }
func (n *openedNode) Enforced() bool                          { return n.enforced.Load() }
func (*openedNode) Believed(*guard.Holder) bool               { return true }
func (*openedNode) SlowHolder(context.Context, *guard.Holder) {}
func (*openedNode) Connected(string, int, net.Addr, func()) (func(context.Context) error, func()) {
	return func(context.Context) error { return nil }, func() {}
}

func (n *openedNode) Identify(_ identity.Principal, from net.Addr, _ string) (*guard.Holder, *record.Refusal) {
	h := &guard.Holder{}
	if tcp, ok := from.(*net.TCPAddr); ok && tcp.IP.String() == n.proves {
		h.Principal = "user/alice"
	}
	return h, nil
}

func TestAClientThatConnectedBeforeRightsWereEnforcedHasToProveWhoItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &openedNode{rules: access.Compile(access.List{})}
		s := New(n, Options{Logger: slog.New(slog.DiscardHandler)})
		var open atomic.Int32
		connect := func() *connection {
			here, there := net.Pipe()
			open.Add(1)
			go func() {
				_, _ = there.Read(make([]byte, 1))
				open.Add(-1)
			}()
			go s.take(here)
			synctest.Wait()
			for c := range s.connections {
				if c.conn == here {
					return c
				}
			}
			t.Fatal("it is not open")
			return nil
		}
		connect()
		proves := connect()
		time.Sleep(2 * proveTime)
		require.EqualValues(t, 2, open.Load(), "nobody has to prove anything")

		before := n.rules
		n.rules = access.Compile(access.List{Enforced: true})
		n.enforced.Store(true)
		s.evict(before)
		time.Sleep(proveTime / 2)
		require.EqualValues(t, 2, open.Load(), "there is time for it")
		proves.holder.Store(&guard.Holder{Principal: "user/alice"})
		time.Sleep(proveTime)
		synctest.Wait()
		require.EqualValues(t, 1, open.Load())
		s.cut(func(*connection) bool { return true })
		s.running.Wait()
	})
}

func TestAClientThatDoesNotReadDelaysTheEndOfNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(doubtingNode{rules: access.Compile(access.List{})}, Options{Logger: slog.New(slog.DiscardHandler)})
		closing, release := make(chan struct{}, 3), make(chan struct{})
		slow := func() net.Conn {
			here, there := net.Pipe()
			t.Cleanup(func() { _ = there.Close() })
			return slowlyClosed{here, closing, release}
		}
		for range 2 {
			c := newConnection(s, slow())
			c.holder.Store(&guard.Holder{})
			s.connections[c] = struct{}{}
		}
		go s.evict(access.Compile(access.List{Revision: 1}))
		synctest.Wait()
		both, free := len(closing) == 2, s.mu.TryLock()
		if free {
			s.options.MaxConnections = 0
			s.mu.Unlock()
			go s.take(slow())
			synctest.Wait()
			free = len(closing) == 3 && s.mu.TryLock()
		}
		close(release)
		synctest.Wait()
		require.True(t, both, "each ends by itself")
		require.True(t, free, "others are taken and end meanwhile")
		s.mu.Unlock()
		s.running.Wait()
	})
}
