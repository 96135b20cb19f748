package kafkaserver

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster/access"
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
