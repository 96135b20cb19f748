package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/transport"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

type change struct {
	node        NodeID
	up, refused bool
}

type delivery struct {
	from, log, replica uint64
	message            []byte
}

// member is one node of a test, with what its mesh reported.
type member struct {
	*Mesh
	node      Node
	listener  net.Listener
	changes   chan change
	delivered chan delivery
	refusals  chan string
}

func newMember(t testing.TB, id NodeID, adjust ...func(*Options)) *member {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &member{
		node:     Node{ID: id, Name: string(rune('a' + id)), Address: listener.Addr().String()},
		listener: listener, changes: make(chan change, 1024), delivered: make(chan delivery, 4096), refusals: make(chan string, 64),
	}
	options := Options{
		Deliver: func(from NodeID, log, replica uint64, message []byte) {
			m.delivered <- delivery{from, log, replica, message}
		},
		Answer: func(_ context.Context, from NodeID, kind string, request []byte) ([]byte, error) {
			return fmt.Appendf(nil, "%d %s %s", from, kind, request), nil
		},
		Changed: func(node NodeID, up, refused bool) { m.changes <- change{node, up, refused} },
		Refused: func(_ Node, reason string) { m.refusals <- reason },
		pace: pace{ping: 20 * time.Millisecond, silence: patience, handshake: patience,
			backoff: time.Millisecond, backoffTo: 20 * time.Millisecond},
	}
	for _, f := range adjust {
		f(&options)
	}
	m.Mesh = New(options)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			m.Accept(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-accepting
		m.Close()
	})
	return m
}

func join(members ...*member) {
	var nodes []Node
	for _, m := range members {
		nodes = append(nodes, m.node)
	}
	for _, m := range members {
		m.SetNodes(nodes)
		m.Identify("cluster", m.node)
	}
}

func next[T any](t testing.TB, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// pair returns two connected nodes; the first dials.
func pair(t testing.TB, adjust ...func(*Options)) (*member, *member) {
	t.Helper()
	a, b := newMember(t, 1, adjust...), newMember(t, 2, adjust...)
	join(a, b)
	require.Equal(t, change{2, true, false}, next(t, a.changes))
	require.Equal(t, change{1, true, false}, next(t, b.changes))
	return a, b
}

func TestMessagesArriveWholeAndInOrderBothWays(t *testing.T) {
	a, b := pair(t)
	for i := range 1000 {
		require.True(t, a.Send(2, 7, 9, false, net.Buffers{[]byte("to "), nil, fmt.Append(nil, i)}))
		require.True(t, b.Send(1, 8, 10, true, net.Buffers{fmt.Append(nil, i)}))
	}
	for i := range 1000 {
		require.Equal(t, delivery{1, 7, 9, fmt.Append(nil, "to ", i)}, next(t, b.delivered))
		require.Equal(t, delivery{2, 8, 10, fmt.Append(nil, i)}, next(t, a.delivered))
	}
}

func TestAnUrgentMessageOfTheGreatestSizeArrivesAndAGreaterOneIsDropped(t *testing.T) {
	a, b := pair(t)
	greatest := bytes.Repeat([]byte("0123456789abcdef"), MaxMessage/16)
	require.True(t, a.Send(2, 1, 1, true, net.Buffers{greatest[:5], greatest[5 : 3<<20], greatest[3<<20:]}))
	got := next(t, b.delivered).message
	require.True(t, bytes.Equal(greatest, got))
	require.Equal(t, len(got), cap(got))
	require.False(t, a.Send(2, 1, 1, true, net.Buffers{greatest, {1}}))
	require.EqualValues(t, 1, a.Stats()[0].Dropped)
}

func TestTheLowerIdDials(t *testing.T) {
	forbidden := func(o *Options) {
		o.Dial = func(context.Context, string) (net.Conn, error) {
			panic("the higher id dials")
		}
	}
	a, b := newMember(t, 1), newMember(t, 2, forbidden)
	join(a, b)
	require.True(t, next(t, a.changes).up)
	require.True(t, next(t, b.changes).up)
}

func TestACutConnectionIsDialledAnew(t *testing.T) {
	var cut atomic.Bool
	again := make(chan struct{})
	a, b := pair(t, func(o *Options) {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if cut.Load() { // a connection that came before the end of the other was seen would replace that
				select {
				case <-again:
				case <-ctx.Done():
				}
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	})
	cut.Store(true)
	_ = (*a.links.Load())[2].current.Load().conn.Close()
	require.Equal(t, change{2, false, false}, next(t, a.changes))
	require.Equal(t, change{1, false, true}, next(t, b.changes), "who is dialled takes the end of a connection for the end of the process")
	close(again)
	require.True(t, next(t, a.changes).up)
	require.True(t, next(t, b.changes).up)
	require.True(t, a.Send(2, 1, 1, true, net.Buffers{[]byte("again")}))
	require.Equal(t, "again", string(next(t, b.delivered).message))
}

func TestAProcessThatIsGoneIsDistinguishedFromSilenceOnce(t *testing.T) {
	a, b := pair(t)
	_ = b.listener.Close()
	b.Close()
	require.Equal(t, change{2, false, false}, next(t, a.changes))
	require.Equal(t, change{2, false, true}, next(t, a.changes))
	require.False(t, a.Send(2, 1, 1, true, nil))
	require.Empty(t, a.changes)
}

// Behind a forwarder of connections nothing refuses them: they are accepted, and closed when the
// forwarder finds nobody.
func TestAProcessThatIsGoneBehindAForwarderIsNoticed(t *testing.T) {
	a := newMember(t, 1)
	forwarder, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer forwarder.Close()
	node := Node{2, "b", forwarder.Addr().String()}
	a.Identify("cluster", a.node)
	a.SetNodes([]Node{node})
	conn, err := forwarder.Accept()
	require.NoError(t, err)
	greet(t, conn, opening{Cluster: "cluster", Node: node, oldest: Version})
	require.Equal(t, change{2, true, false}, next(t, a.changes))
	require.NoError(t, conn.Close())
	require.Equal(t, change{2, false, false}, next(t, a.changes))
	for range 3 {
		conn, err := forwarder.Accept()
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		require.NoError(t, conn.Close())
	}
	require.Equal(t, change{2, false, true}, next(t, a.changes))
	require.Empty(t, a.changes, "it is said once")
}

func TestASilentNodeIsFoundOnBothSides(t *testing.T) {
	short := func(o *Options) { o.pace.silence = 100 * time.Millisecond }
	t.Run("that was dialled", func(t *testing.T) {
		a := newMember(t, 1, short)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		node := Node{2, "silent", listener.Addr().String()}
		a.Identify("cluster", a.node)
		a.SetNodes([]Node{node})
		conn, err := listener.Accept()
		require.NoError(t, err)
		defer conn.Close()
		greet(t, conn, opening{Cluster: "cluster", Node: node, oldest: Version})
		require.Equal(t, change{2, true, false}, next(t, a.changes))
		require.Equal(t, change{2, false, false}, next(t, a.changes))
	})
	t.Run("that dialled", func(t *testing.T) {
		b := newMember(t, 2, short)
		b.Identify("cluster", b.node)
		b.SetNodes([]Node{{1, "silent", "127.0.0.1:1"}})
		conn := dialAs(t, b, 1)
		defer conn.Close()
		require.Equal(t, change{1, true, false}, next(t, b.changes))
		require.Equal(t, change{1, false, false}, next(t, b.changes), "silence is no proof that the process is gone")
	})
}

// greet shakes hands by itself, without a mesh.
func greet(t *testing.T, conn net.Conn, mine opening) {
	t.Helper()
	_, err := shakeHands(conn, bufio.NewReaderSize(conn, 16), mine, func(opening) verdict { return verdict{} }, patience)
	require.NoError(t, err)
}

func dialAs(t *testing.T, to *member, id NodeID) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.node.Address)
	require.NoError(t, err)
	greet(t, conn, opening{Cluster: "cluster", Node: Node{ID: id, Name: "silent"}, oldest: Version})
	return conn
}

func TestTheNewerOfTwoConnectionsWins(t *testing.T) {
	b := newMember(t, 2)
	b.Identify("cluster", b.node)
	b.SetNodes([]Node{{1, "a", "127.0.0.1:1"}})
	older := dialAs(t, b, 1)
	defer older.Close()
	require.Equal(t, change{1, true, false}, next(t, b.changes))
	newer := dialAs(t, b, 1)
	defer newer.Close()
	require.Equal(t, change{1, false, false}, next(t, b.changes), "what was on its way in the older one is lost")
	require.Equal(t, change{1, true, false}, next(t, b.changes))
	_, err := newer.Write(append(header{kind: messageFrame, length: 2}.append(nil), "hi"...))
	require.NoError(t, err)
	require.Equal(t, "hi", string(next(t, b.delivered).message))
}

func TestABadFrameEndsTheConnection(t *testing.T) {
	b := newMember(t, 2)
	b.Identify("cluster", b.node)
	b.SetNodes([]Node{{1, "a", "127.0.0.1:1"}})
	conn := dialAs(t, b, 1)
	defer conn.Close()
	require.True(t, next(t, b.changes).up)
	raw := header{kind: messageFrame, length: 1}.append(nil)
	binary.LittleEndian.PutUint32(raw, 2)
	_, err := conn.Write(raw)
	require.NoError(t, err)
	require.Equal(t, change{1, false, false}, next(t, b.changes))
}

func TestWhoIsRefusedHearsTheReasonOnce(t *testing.T) {
	a := newMember(t, 1)
	b := newMember(t, 2, func(o *Options) {
		o.Admit = func(h Hello) error {
			return fmt.Errorf("node %s of cluster %s was removed", h.Node.Name, h.Cluster)
		}
	})
	join(a, b)
	require.Equal(t, "node b of cluster cluster was removed", next(t, a.refusals))
	_, err := a.Ask(t.Context(), b.node.Address, "x", nil) // several attempts may have been made by now
	refusal, ok := errors.AsType[*RefusedError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, refusal.Reason, "was removed")
	require.Empty(t, a.refusals)
	require.Empty(t, a.changes)
}

// speaking gives a node other versions of the protocol.
func speaking(oldest, newest uint32) func(*Options) {
	return func(o *Options) { o.oldest, o.newest = oldest, newest }
}

func TestNodesWithoutACommonVersionRefuseEachOther(t *testing.T) {
	a, b := newMember(t, 1, speaking(8, 9)), newMember(t, 2)
	join(a, b)
	require.Contains(t, next(t, a.refusals), "this node speaks versions 1 to 1 of the protocol between nodes, and the other node 8 to 9")
	require.Contains(t, next(t, b.refusals), "this node speaks versions 8 to 9 of the protocol between nodes, and the other node 1 to 1")
}

func TestNodesSpeakTheNewestVersionThatBothDo(t *testing.T) {
	for _, row := range [][5]uint32{{1, 1, 1, 1, 1}, {1, 2, 1, 1, 1}, {1, 2, 2, 3, 2}, {1, 3, 2, 4, 3}} {
		a, b := newMember(t, 1, speaking(row[0], row[1])), newMember(t, 2, speaking(row[2], row[3]))
		join(a, b)
		next(t, a.changes)
		next(t, b.changes)
		require.Equal(t, row[4], a.link(2).current.Load().version, row)
		require.Equal(t, row[4], b.link(1).current.Load().version, row)
	}
	old := opening{oldest: 3} // one that names no range
	require.Equal(t, uint32(3), version(opening{oldest: 2, Newest: 5}, old))
}

func TestAnAddressThatLeadsToAnotherNodeIsSaid(t *testing.T) {
	a, b, c := newMember(t, 1), newMember(t, 2), newMember(t, 3)
	join(a, b)
	b.SetNodes([]Node{a.node})
	c.SetNodes([]Node{a.node})
	c.Identify("cluster", c.node)
	wrong := b.node
	wrong.Address = c.node.Address
	a.SetNodes([]Node{wrong})
	require.Contains(t, next(t, c.refusals), "node 2 (c) is expected at "+c.node.Address+", not node 3 (d)")
}

func TestANodeThatIsNotKnownYetIsConnectedOnceItIs(t *testing.T) {
	a, b := newMember(t, 1), newMember(t, 2)
	a.Identify("cluster", a.node)
	a.SetNodes([]Node{b.node})
	_, err := a.Ask(t.Context(), b.node.Address, "join", nil)
	require.NoError(t, err)
	b.Identify("cluster", b.node)
	b.SetNodes([]Node{a.node})
	require.True(t, next(t, a.changes).up)
	require.Empty(t, a.refusals, "too early is no refusal")
}

func TestANodeThatAsksIsDialledAtOnce(t *testing.T) {
	tried := make(chan struct{}, 2)
	a, b := newMember(t, 1, func(o *Options) {
		o.pace.backoff, o.pace.backoffTo = time.Hour, time.Hour
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if len(tried) == 0 {
				tried <- struct{}{}
				return nil, syscall.ECONNREFUSED
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}), newMember(t, 2)
	a.SetNodes([]Node{b.node})
	a.Identify("cluster", a.node)
	require.Equal(t, change{2, false, true}, next(t, a.changes))
	b.SetNodes([]Node{a.node})
	b.Identify("cluster", b.node)
	_, err := b.Ask(t.Context(), a.node.Address, "who", nil)
	require.NoError(t, err)
	require.Equal(t, change{2, true, false}, next(t, a.changes))
}

func TestANodeThatMovesIsDialledAtItsNewAddressAndOneRemovedIsNot(t *testing.T) {
	a, b := pair(t)
	moved := newMember(t, 2)
	moved.SetNodes([]Node{a.node})
	moved.Identify("cluster", moved.node)
	_ = b.listener.Close()
	a.SetNodes([]Node{moved.node})
	require.Equal(t, change{2, false, false}, next(t, a.changes))
	require.True(t, next(t, moved.changes).up)
	require.Equal(t, change{2, true, false}, next(t, a.changes))
	a.SetNodes(nil)
	require.Equal(t, change{2, false, false}, next(t, a.changes))
	require.False(t, a.Send(2, 1, 1, true, nil))
}

func TestAnAddressThatChangesWhileItIsDialledIsAbandonedAtOnce(t *testing.T) {
	dialling := make(chan struct{}, 1)
	a := newMember(t, 1, func(o *Options) {
		o.pace.handshake = time.Hour
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if address == "black hole" {
				dialling <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	})
	b := newMember(t, 2)
	a.SetNodes([]Node{{2, "c", "black hole"}})
	b.SetNodes([]Node{a.node})
	a.Identify("cluster", a.node)
	b.Identify("cluster", b.node)
	next(t, dialling)
	a.SetNodes([]Node{b.node})
	require.True(t, next(t, b.changes).up)
}

func TestANodeThatReadsNothingFillsItsQueueAndNoMore(t *testing.T) {
	b := newMember(t, 2)
	b.Identify("cluster", b.node)
	b.SetNodes([]Node{{1, "a", "127.0.0.1:1"}})
	conn := dialAs(t, b, 1)
	defer conn.Close()
	require.True(t, next(t, b.changes).up)
	message := net.Buffers{make([]byte, 1<<20)}
	sent := 0
	for ; sent < 1000 && b.Send(1, 1, 1, false, message); sent++ {
	}
	require.Less(t, sent, 1000)
	require.LessOrEqual(t, b.Stats()[0].Queued, int64(bulkQueueBytes))
	require.True(t, b.Send(1, 1, 1, true, message), "the urgent lane has room of its own")
	b.Close() // returns though the writer is stuck in the kernel
}

func TestNodesMeetOnASharedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	sorted, others := transport.Split(l, Magic)
	peers := sorted[0]
	b := newMember(t, 2)
	b.node.Address = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := peers.Accept()
			if err != nil {
				return
			}
			b.Accept(conn)
		}
	}()
	a := newMember(t, 1)
	join(a, b)
	require.True(t, next(t, a.changes).up)
	require.NoError(t, peers.Close())
	require.NoError(t, others.Close())
	<-done
}
