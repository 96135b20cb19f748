package node

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strandline.dev/internal/node/verbs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/background"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// The clock of these tests stands still while anything runs, so that time passes on the links
// only: what took three round trips took exactly three times as long as one.

// trip is a round trip between any two nodes.
const trip = 140 * time.Millisecond

// distant is a network of listeners by address, in one process.
type distant struct {
	mu        sync.Mutex
	listeners map[string]*distantListener
	// slow is the address whose node receives slowBytes a second; empty: none is.
	slow string
}

const slowBytes = 64 << 10

func (d *distant) listen(address string) net.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &distantListener{address: address, arrived: make(chan net.Conn), closed: make(chan struct{})}
	if d.listeners == nil {
		d.listeners = map[string]*distantListener{}
	}
	d.listeners[address] = l
	return l
}

// dialFrom returns what connects the node at an address with others.
func (d *distant) dialFrom(own string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		d.mu.Lock()
		l := d.listeners[address]
		slow := d.slow
		d.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("dial %s: nothing listens", address)
		}
		there, back := newDistantLine(address == slow), newDistantLine(own == slow)
		select {
		case l.arrived <- &distantConn{in: there, out: back}:
			return &distantConn{in: back, out: there}, nil
		case <-l.closed:
			return nil, fmt.Errorf("dial %s: it does not listen any more", address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type distantListener struct {
	address string
	arrived chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *distantListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *distantListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *distantListener) Addr() net.Addr { return distantAddress(l.address) }

type distantAddress string

func (a distantAddress) Network() string { return "distant" }
func (a distantAddress) String() string  { return string(a) }

// distantConn is one side of a connection.
type distantConn struct{ in, out *distantLine }

func (c *distantConn) Read(b []byte) (int, error)        { return c.in.read(b) }
func (c *distantConn) Write(b []byte) (int, error)       { return c.out.write(b) }
func (c *distantConn) LocalAddr() net.Addr               { return distantAddress("here") }
func (c *distantConn) RemoteAddr() net.Addr              { return distantAddress("there") }
func (c *distantConn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *distantConn) SetWriteDeadline(time.Time) error  { return nil }
func (c *distantConn) SetReadDeadline(t time.Time) error { return c.in.setDeadline(t) }

func (c *distantConn) Close() error {
	c.in.close()
	c.out.close()
	return nil
}

// distantLine is one direction of a connection.
type distantLine struct {
	mu       sync.Mutex
	changed  sync.Cond
	chunks   []distantChunk
	held     int
	slow     bool
	free     time.Time // when a slow line has sent all it holds
	deadline time.Time // of the reader
	closed   bool
}

type distantChunk struct {
	bytes []byte
	due   time.Time
}

// lineBytes is what a line holds before who writes has to wait.
const lineBytes = 256 << 10

func newDistantLine(slow bool) *distantLine {
	l := &distantLine{slow: slow}
	l.changed.L = &l.mu
	return l
}

func (l *distantLine) wakeAt(t time.Time) {
	time.AfterFunc(time.Until(t), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
}

func (l *distantLine) write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.slow && l.held > lineBytes {
		l.changed.Wait()
	}
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	sent := time.Now()
	if l.slow {
		if l.free.After(sent) {
			sent = l.free
		}
		sent = sent.Add(time.Duration(len(b)) * time.Second / slowBytes)
		l.free = sent
	}
	l.chunks = append(l.chunks, distantChunk{append([]byte(nil), b...), sent.Add(trip / 2)})
	l.held += len(b)
	l.wakeAt(sent.Add(trip / 2))
	return len(b), nil
}

func (l *distantLine) read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case len(l.chunks) > 0 && !l.chunks[0].due.After(now):
			first := &l.chunks[0]
			n := copy(b, first.bytes)
			if first.bytes = first.bytes[n:]; len(first.bytes) == 0 {
				l.chunks = l.chunks[1:]
			}
			l.held -= n
			l.changed.Broadcast()
			return n, nil
		case l.closed && len(l.chunks) == 0:
			return 0, io.EOF
		case !l.deadline.IsZero() && !l.deadline.After(now):
			return 0, os.ErrDeadlineExceeded
		}
		l.changed.Wait()
	}
}

func (l *distantLine) setDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if !t.IsZero() {
		l.wakeAt(t)
	}
	l.changed.Broadcast()
	return nil
}

func (l *distantLine) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
}

// farCluster runs a test on nodes that are all a round trip apart, each with a label dc=NAME.
func farCluster(t *testing.T, network *distant, test func(t *testing.T, c *testCluster), names ...string) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterOver(t, network, func(o *settings.Options) {
			o.KeepLeaders, o.ScrubRate = true, -1
			o.Labels = []cluster.Label{cluster.Label("dc=" + o.Name)}
		}, names...)
		c.healthy()
		test(t, c)
	})
}

// trips are the round trips of a call, all that was begun included.
func trips(call func()) int {
	began := time.Now()
	call()
	return int(math.Ceil(float64(time.Since(began)) / float64(trip)))
}

func TestALogIsCreatedInThreeRoundTrips(t *testing.T) {
	t.Parallel()
	farCluster(t, new(distant), func(t *testing.T, c *testCluster) {
		// Whoever is asked, and wherever the catalog and the new log are led.
		for name, n := range c.nodes {
			for i := range 2 {
				log := fmt.Sprint(name, i)
				took := trips(func() {
					info, err := n.CreateLog(t.Context(), anyone, log, settings.Config{Replicas: 3})
					require.NoError(t, err)
					require.Empty(t, info.Problem)
				})
				require.LessOrEqual(t, took, 3, "created by %s, led by %s, the catalog by %s", name, c.leader(log), c.leader(verbs.CatalogLog))
				c.append(log, "one")
			}
		}
	}, "a", "b", "c", "d", "e")
}

// However many logs a node leads, it asks once before it looks at all of them.
func TestALookOverManyLogsTakesTwoRoundTrips(t *testing.T) {
	farCluster(t, new(distant), func(t *testing.T, c *testCluster) {
		const logs = 300
		name := c.follower(verbs.CatalogLog) // its questions go farthest
		n := c.nodes[name]
		there := &cluster.Rule{In: []cluster.Label{cluster.Label("dc=" + name)}}
		create := func(log string) {
			_, err := n.CreateLog(t.Context(), anyone, log, settings.Config{Replicas: 1, Durability: settings.Memory, Rule: there})
			require.NoError(t, err)
		}
		var creating sync.WaitGroup
		for i := range logs {
			creating.Go(func() { create(fmt.Sprint("log", i)) })
		}
		creating.Wait()
		// looked waits until all logs were looked at for a state after one, and returns how long that
		// took from when the node knew the newest.
		var state *cluster.State
		looked := func(after *cluster.State) time.Duration {
			for changed := time.Now(); ; time.Sleep(time.Millisecond) {
				synctest.Wait()
				if shown := n.catalog.Load().Shown.Load(); shown != state {
					state, changed = shown, time.Now()
				}
				all := 0
				for _, h := range n.logs.All() {
					if h.Replica != nil && h.Replica.Status().Leading && h.Shaped.Load() == state {
						all++
					}
				}
				if state != after && all == logs {
					return time.Since(changed)
				}
			}
		}
		looked(nil)

		// A state with nothing to do for any log.
		require.NoError(t, c.nodes[c.leader(verbs.CatalogLog)].SetDefaultRule(t.Context(), anyone, "none.", cluster.Rule{Spread: "dc"}))
		require.LessOrEqual(t, looked(state), background.LookEvery+2*trip, "with the pause before the look")
	}, "a", "b", "c")
}

// One of three takes much less than what is appended. Each append is acknowledged after one round trip
// to the other, and what waits for the slow one is bounded.
func TestAppendsDoNotWaitForASlowFollower(t *testing.T) {
	t.Parallel()
	network := &distant{slow: "c:1"}
	farCluster(t, network, func(t *testing.T, c *testCluster) {
		_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
		require.NoError(t, err)
		if c.leader("orders") == "c" {
			c.transfer("orders", "a")
		}
		leader := c.nodes[c.leader("orders")]
		value := make([]byte, 256<<10)
		for i := range 60 {
			var answer sequence.Answer
			took := trips(func() { answer = appendTo(t, leader, "orders", request(t, string(value))) })
			require.Nil(t, answer.Refusal)
			require.Equal(t, record.Offset(i), answer.First.First)
			require.Equal(t, 1, took, "append %d", i)
			require.LessOrEqual(t, leader.memory.Sending.Used(), leader.memory.Sending.Size())
			require.LessOrEqual(t, leader.memory.Tails.Used(), leader.memory.Tails.Size())
		}
		_, end, err := c.nodes["c"].logs.Named("orders").Replica.Tail().Bounds()
		require.NoError(t, err)
		require.Less(t, end, record.Offset(30), "the slow one is far behind")
		require.True(t, leader.peers.Reaches(c.nodes["c"].me.Load().NodeID), "and there")
	}, "a", "b", "c")
}
