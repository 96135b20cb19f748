package secure

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHandshakeTakesSoManyBytesAndNoMore(t *testing.T) {
	client, server := net.Pipe()
	c := &conn{Conn: server, handshaking: true, left: handshakeBytes}
	go func() {
		_, _ = client.Write(make([]byte, 2*handshakeBytes))
		_ = client.Close()
	}()
	taken, buffer := 0, make([]byte, 4096)
	for {
		n, err := c.Read(buffer)
		taken += n
		if err != nil {
			require.ErrorIs(t, err, errTooMuch)
			break
		}
	}
	require.Equal(t, handshakeBytes, taken)
	c.handshaking = false
	_, err := c.Read(buffer)
	require.NoError(t, err, "after it there is no bound")
	require.NoError(t, c.Close())
}

// Clients that connect and say nothing fill all places, and then some.
func TestSilentClientsKeepNobodyOut(t *testing.T) {
	ca := newAuthority(t, "prod")
	p := openPort(t, "a", ca.node("a"), GateOptions{}, Port{})
	var silent []net.Conn
	defer func() {
		for _, s := range silent {
			_ = s.Close()
		}
	}()
	for range maxHandshakes + 100 {
		s, err := net.Dial("tcp", p.Addr().String())
		require.NoError(t, err)
		silent = append(silent, s)
	}
	_, _, err := p.connect(asClient(t, Files{Authority: ca.ca()}))
	require.NoError(t, err)
	require.NoError(t, silent[0].SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = silent[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the oldest was closed")
}

type named struct {
	net.Conn
	closed bool
}

func (n *named) Close() error { n.closed = true; return nil }

func TestOneAddressDoesNotTakeTheHandshakesOfOthers(t *testing.T) {
	one, two := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
	h := handshakes{ofEach: map[netip.Prefix]int{}}
	honest := &named{}
	require.NotNil(t, h.enter(honest, two))
	first := &named{}
	require.NotNil(t, h.enter(first, one))
	for range maxHandshakesOfAddress - 1 {
		require.NotNil(t, h.enter(&named{}, one))
	}
	require.False(t, first.closed)
	paused := &named{}
	waiting := h.enter(paused, one) // in the place of first
	require.NotNil(t, waiting, "its oldest makes room")
	h.turn(waiting, forPace)
	require.True(t, first.closed)
	require.Equal(t, maxHandshakesOfAddress, h.ofEach[one])
	// What waits for its pace is closed after what waits for its client, and what waits for
	// this node is not closed for another one.
	for range maxHandshakesOfAddress - 1 {
		e := h.enter(&named{}, one)
		require.NotNil(t, e)
		h.turn(e, forNode)
	}
	require.False(t, paused.closed)
	last := h.enter(&named{}, one)
	require.NotNil(t, last)
	require.True(t, paused.closed)
	h.turn(last, forNode)
	require.Nil(t, h.enter(&named{}, one))
	require.False(t, honest.closed)
	for h.all.Len() > 0 {
		h.leave(h.all.Front())
	}
	require.Empty(t, h.ofEach)
}

func TestAnAddressHoldsSoManyConnections(t *testing.T) {
	a := addresses{most: 5, mostOfEach: 2, ofEach: map[netip.Prefix]int{}}
	enter := func(address string) func() {
		leave, ok := a.enter(nil, prefixOf(&net.TCPAddr{IP: net.ParseIP(address), Port: 1}))
		require.Equal(t, ok, leave != nil)
		return leave
	}
	first := enter("10.0.0.1")
	require.NotNil(t, first)
	require.NotNil(t, enter("::ffff:10.0.0.1"), "it is the same address")
	require.Nil(t, enter("10.0.0.1"))
	require.NotNil(t, enter("2001:db8::1"))
	require.NotNil(t, enter("2001:db8::2"))
	require.Nil(t, enter("2001:db8::3"), "the first 64 bits count")
	last := enter("127.0.0.1")
	require.NotNil(t, last)
	require.Nil(t, enter("127.0.0.1"), "there are five in all")
	first()
	require.NotNil(t, enter("127.0.0.1"), "this machine is not bounded by itself")
	last()
	require.NotNil(t, enter("10.0.0.1"))
}

func TestAPortClosesWhatAnAddressMayNotHold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := NewGate(GateOptions{})
	gated := g.Listen(l, Port{Name: "test", Most: 1})
	defer func() { require.NoError(t, gated.Close()) }()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first, err := gated.Accept()
	require.NoError(t, err)
	second := dial()
	accepted := make(chan net.Conn)
	go func() {
		c, err := gated.Accept()
		if err != nil {
			c = nil
		}
		accepted <- c
	}()
	_, err = second.Read(make([]byte, 1))
	require.Error(t, err, "it is closed at once")
	require.NoError(t, first.Close())
	_ = first.Close() // which does not count
	dial()
	third := <-accepted
	require.NotNil(t, third)
	require.NoError(t, third.Close())
}

func TestAFullPortYieldsToAddressesWithFewerConnections(t *testing.T) {
	a := addresses{most: 10, mostOfEach: 8, yields: true, ofEach: map[netip.Prefix]int{}}
	enter := func(address string) (conn *named, leave func()) {
		conn = &named{}
		leave, _ = a.enter(conn, prefixOf(&net.TCPAddr{IP: net.ParseIP(address), Port: 1}))
		return conn, leave
	}
	var greedy []*named
	for range 8 {
		conn, leave := enter("10.0.0.1")
		require.NotNil(t, leave)
		defer leave()
		greedy = append(greedy, conn)
	}
	_, leave := enter("10.0.0.1")
	require.Nil(t, leave, "it has its share")
	var others []*named
	for i := range 6 {
		conn, leave := enter("10.0.1." + string(rune('1'+i)))
		require.NotNil(t, leave, "an address that asks whether the node lives is let in")
		defer leave()
		others = append(others, conn)
	}
	for i, conn := range greedy {
		require.Equal(t, i < 4, conn.closed, "the oldest ones go")
	}
	for _, conn := range others {
		require.False(t, conn.closed)
	}
	require.Equal(t, 10, a.open)
	machine, leave := enter("127.0.0.1")
	require.NotNil(t, leave)
	leave()
	leave()
	require.False(t, machine.closed)
	require.Equal(t, 9, a.open, "what has gone is not counted again")
}
