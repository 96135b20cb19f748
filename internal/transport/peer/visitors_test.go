package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// nameless is a connection that proves nothing.
type nameless struct{ net.Conn }

// provingAllBut lets all connections prove that they are of a node, but for nameless ones.
func provingAllBut(o *Options) {
	o.Prove = func(conn net.Conn, _ string) (string, error) {
		if _, is := conn.(nameless); is {
			return "", errors.New("no certificate")
		}
		return "b", nil
	}
}

func TestWhatIsNoNodesHasNoPlaceAndHearsNothing(t *testing.T) {
	a, b := newMember(t, 1), newMember(t, 2, provingAllBut)
	b.Identify("cluster", b.node)
	for range 2 * maxVisitors {
		outside, inside := net.Pipe()
		b.Accept(nameless{inside})
		defer outside.Close()
		_, err := outside.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	join(a, b)
	require.Equal(t, change{1, true, false}, next(t, b.changes))
}

// Without certificates, whoever begins as a node and says nothing more is as good as one.
func TestConnectionsThatSayNothingMakeWayForNodes(t *testing.T) {
	a, b := newMember(t, 1), newMember(t, 2)
	b.Identify("cluster", b.node)
	for range maxVisitors {
		outside, inside := net.Pipe()
		defer outside.Close()
		b.Accept(inside)
	}
	join(a, b)
	require.Equal(t, change{1, true, false}, next(t, b.changes))
}

// closing is a connection of which only its end is looked at.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTheOldestOfThoseWithMostMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visitors
		enter := func(c *closing, from string) *visitor { return v.enter(t.Context(), c, from, time.Minute) }
		one := &closing{}
		enter(one, "one")
		var many []*closing
		for range 2 * maxVisitors {
			many = append(many, &closing{})
			v.leave(enter(&closing{}, "gone"))
			enter(many[len(many)-1], "many")
		}
		require.False(t, one.closed)
		require.Equal(t, maxVisitors, v.all)
		for i, c := range many {
			require.Equal(t, i < len(many)-(maxVisitors-1), c.closed, i)
		}
		require.NotContains(t, v.of, "gone")
	})
}

func TestOneAddressTakesOverItsOwnPlacesAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visitors
		for range maxVisitors {
			v.enter(t.Context(), &closing{}, "many", time.Second)
		}
		begun := time.Now()
		var entered, refused atomic.Int64
		var all sync.WaitGroup
		for range 3 * turnsOfVisitors {
			all.Go(func() {
				if v.enter(t.Context(), &closing{}, "many", time.Second) != nil {
					entered.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 1, entered.Load(), "the others wait")
		require.EqualValues(t, 3*turnsOfVisitors-1-maxVisitors, refused.Load(), "no more may wait")
		other := &closing{}
		require.NotNil(t, v.enter(t.Context(), other, "other", time.Second))
		require.Equal(t, begun, time.Now(), "whoever has few does not wait")
		all.Wait()
		require.Equal(t, time.Second, time.Since(begun))
		require.EqualValues(t, 1+turnsOfVisitors, entered.Load())
		require.False(t, other.closed)
	})
}

func TestAnAddressOfIPv6IsItsNetwork(t *testing.T) {
	at := func(ip string) string { return whereabouts(from{&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}) }
	require.Equal(t, at("2001:db8::1"), at("2001:db8::2:3:4:5"))
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:0:1::1"))
	require.NotEqual(t, at("192.0.2.1"), at("192.0.2.2"))
	require.Equal(t, at("192.0.2.1"), at("::ffff:192.0.2.1"))
}

type from struct{ address net.Addr }

func (f from) RemoteAddr() net.Addr             { return f.address }
func (from) LocalAddr() net.Addr                { return nil }
func (from) Read([]byte) (int, error)           { return 0, io.EOF }
func (from) Write(b []byte) (int, error)        { return len(b), nil }
func (from) Close() error                       { return nil }
func (from) SetDeadline(time.Time) error        { return nil }
func (from) SetReadDeadline(t time.Time) error  { return nil }
func (from) SetWriteDeadline(t time.Time) error { return nil }

// logLines are the lines of a log.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (w *logLines) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, string(line))
	return len(line), nil
}

// visit says an opening and a verdict to a mesh, and waits until the mesh has closed.
func visit(m *Mesh, o opening, v verdict, wrap func(net.Conn) net.Conn) {
	outside, inside := net.Pipe()
	defer outside.Close()
	m.Accept(wrap(inside))
	go func() {
		_, _ = outside.Write(o.encode())
		_, _ = outside.Write(v.encode())
	}()
	_, _ = io.Copy(io.Discard, outside)
}

// What comes in can say ever other things: it fills no log.
func TestWhatIncomingConnectionsSayIsBounded(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"nothing can be proved": func(c net.Conn) net.Conn { return c },
		"nothing is proved":     func(c net.Conn) net.Conn { return nameless{c} },
	} {
		t.Run(name, func(t *testing.T) {
			log := &logLines{}
			m := newMember(t, 2, func(o *Options) {
				o.Logger = slog.New(slog.NewTextHandler(log, nil))
				if name == "nothing is proved" {
					provingAllBut(o)
				}
			})
			m.Identify("cluster", m.node)
			m.SetNodes([]Node{{ID: 1, Name: "one", Address: "127.0.0.1:1"}})
			began := time.Now()
			for i := range 200 {
				o := opening{Cluster: "cluster", Node: Node{ID: 1, Name: fmt.Sprint(i, strings.Repeat("n", 10<<10)), Address: strings.Repeat("a", 10<<10)}, oldest: OldestVersion}
				visit(m.Mesh, o, verdict{refused, fmt.Sprint(i, strings.Repeat("\x01", 10<<10))}, wrap)
				o.Node.ID = 3
				visit(m.Mesh, o, verdict{}, wrap)
			}
			m.Close()
			most := noticesAtOnce + int(time.Since(began)/noticeEvery)
			require.LessOrEqual(t, len(log.lines), most)
			require.NotEmpty(t, log.lines)
			for _, line := range log.lines {
				require.Less(t, len(line), 7*maxNotice)
				if name == "nothing is proved" {
					require.NotContains(t, line, "nnn")
				}
			}
			require.LessOrEqual(t, len(m.refusals), most)
			if name == "nothing is proved" {
				require.Empty(t, m.refusals)
			}
		})
	}
}

// One that has proved who it is can say that it refuses this node, in so many words.
func TestARefusalOfThisNodeIsCut(t *testing.T) {
	m := newMember(t, 2, provingAllBut)
	m.Identify("cluster", m.node)
	m.SetNodes([]Node{{ID: 1, Name: "b", Address: "127.0.0.1:1"}})
	visit(m.Mesh, opening{Cluster: "cluster", Node: Node{ID: 1, Name: "b"}, oldest: OldestVersion}, verdict{refused, strings.Repeat("r", 2*maxNotice)}, func(c net.Conn) net.Conn { return c })
	require.Equal(t, strings.Repeat("r", maxNotice-3)+"...", next(t, m.refusals))
}
