package kafkaserver

import (
	"log/slog"
	"net"
	"testing"

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
	s := New(doubtingNode{rules: access.Compile(access.List{})}, Options{Logger: slog.New(slog.DiscardHandler)})
	closing, release := make(chan struct{}, 3), make(chan struct{})
	for range 2 {
		here, there := net.Pipe()
		defer there.Close()
		c := newConnection(s, slowlyClosed{here, closing, release})
		c.holder.Store(&guard.Holder{})
		s.connections[c] = struct{}{}
	}
	evicted := make(chan struct{})
	go func() {
		s.evict(access.Compile(access.List{Revision: 1}))
		close(evicted)
	}()
	<-closing
	locked := s.mu.TryLock()
	if locked {
		s.mu.Unlock()
		<-closing // the other one, while the first waits
		<-evicted
	}
	close(release)
	<-evicted
	require.True(t, locked, "new connections are taken, and others end, meanwhile")
	s.options.MaxConnections = 0
	here, there := net.Pipe()
	defer there.Close()
	refused := slowlyClosed{here, closing, make(chan struct{})}
	taken := make(chan struct{})
	go func() {
		s.take(refused)
		close(taken)
	}()
	<-closing
	locked = s.mu.TryLock()
	close(refused.release)
	<-taken
	require.True(t, locked, "nor does one that is refused")
	s.mu.Unlock()
	s.running.Wait()
}
