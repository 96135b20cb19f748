package proxy_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/leaks"
	"strandline.dev/test/proxy"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestBytesOfManyConnectionsArriveInOrderBothWays(t *testing.T) {
	p := startEcho(t)
	p.SetDelay(time.Millisecond)
	var clients sync.WaitGroup
	for seed := range uint64(8) {
		clients.Go(func() {
			sent := randomBytes(seed, 3<<20)
			socket := dial(t, p)
			clients.Go(func() {
				_, err := socket.Write(sent)
				requireNoError(t, err)
				requireNoError(t, socket.CloseWrite())
			})
			received, err := io.ReadAll(socket)
			requireNoError(t, err)
			if !bytes.Equal(sent, received) {
				t.Errorf("connection %d: %d bytes came back of %d, or others", seed, len(received), len(sent))
			}
		})
	}
	clients.Wait()
}

func TestADelayIsMetByEachByteEachWay(t *testing.T) {
	p := startEcho(t)
	socket := dial(t, p)
	roundTrip(t, socket)
	p.SetDelay(40 * time.Millisecond)
	require.GreaterOrEqual(t, roundTrip(t, socket), 80*time.Millisecond)
	require.GreaterOrEqual(t, roundTrip(t, dial(t, p)), 80*time.Millisecond, "a connection made later, too")
	p.SetDelay(0)
	roundTrip(t, socket)
}

// A proxy that slept for each chunk, or stopped reading meanwhile, would need
// one delay per read.
func TestALineHoldsMoreThanOneReadWhileItDelays(t *testing.T) {
	const delay, size = 200 * time.Millisecond, 64 << 20
	p, target := startSink(t)
	p.SetDelay(delay)
	socket := dial(t, p)
	begin := time.Now()
	_, err := socket.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, socket.CloseWrite())
	require.EqualValues(t, size, <-target.received)
	require.GreaterOrEqual(t, time.Since(begin), delay)
	require.Less(t, time.Since(begin), 200*delay, "there were at least 256 reads")
}

func TestAStalledDirectionHoldsBytesAndTheOtherGoesOn(t *testing.T) {
	for _, stalled := range []proxy.Direction{proxy.Up, proxy.Down} {
		t.Run(stalled.String(), func(t *testing.T) {
			p, server := startPair(t)
			client := dial(t, p)
			far := <-server
			from, to := client, far
			if stalled == proxy.Down {
				from, to = far, client
			}
			p.Stall(stalled)
			say(t, from, "held")
			say(t, to, "goes on")
			require.Equal(t, "goes on", hear(t, from, 7))
			requireSilence(t, to)
			p.Resume()
			require.Equal(t, "held", hear(t, to, 4))
		})
	}
}

func TestTheEndOfAConnectionIsStalledWithItsBytes(t *testing.T) {
	p, server := startPair(t)
	client := dial(t, p)
	far := <-server
	p.Stall(proxy.Both)
	say(t, client, "last words")
	require.NoError(t, client.Close())
	requireSilence(t, far)
	p.Resume()
	require.Equal(t, "last words", hearAll(t, far))
}

func TestAConnectionMadeDuringAStallReachesTheTargetAfterIt(t *testing.T) {
	p, server := startPair(t)
	p.Stall(proxy.Down)
	client := dial(t, p)
	say(t, client, "hello")
	select {
	case <-server:
		t.Fatal("a connection passed a link that is dead one way")
	case <-time.After(50 * time.Millisecond):
	}
	p.Resume()
	require.Equal(t, "hello", hear(t, <-server, 5))
}

func TestASenderFeelsAStallAsAFullWindow(t *testing.T) {
	p, server := startPair(t)
	client := dial(t, p)
	far := <-server
	p.Stall(proxy.Up)
	sent := 0
	for chunk := make([]byte, 1<<20); ; {
		require.NoError(t, client.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
		n, err := client.Write(chunk)
		sent += n
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
		require.Less(t, sent, 256<<20, "the proxy takes without end what it cannot deliver")
	}
	p.Resume()
	n, err := io.CopyN(io.Discard, far, int64(sent))
	require.NoError(t, err)
	require.EqualValues(t, sent, n)
}

func TestACutResetsBothSides(t *testing.T) {
	p, server := startPair(t)
	client := dial(t, p)
	far := <-server
	p.Stall(proxy.Both)
	p.Cut()
	requireReset(t, client)
	requireReset(t, far)
	p.Resume()
	say(t, dial(t, p), "again")
	require.Equal(t, "again", hear(t, <-server, 5))
}

func TestARefusedConnectionIsResetAndOpenOnesGoOn(t *testing.T) {
	p := startEcho(t)
	before := dial(t, p)
	roundTrip(t, before)
	p.Refuse(true)
	requireRefused(t, p)
	roundTrip(t, before)
	p.Refuse(false)
	roundTrip(t, dial(t, p))
}

func TestAResetOfOneSideReachesTheOther(t *testing.T) {
	p, server := startPair(t)
	client := dial(t, p)
	far := <-server
	require.NoError(t, far.SetLinger(0))
	require.NoError(t, far.Close())
	requireReset(t, client)

	client = dial(t, p)
	far = <-server
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	requireReset(t, far)
}

func TestAHalfClosedConnectionStillAnswers(t *testing.T) {
	p, server := startPair(t)
	client := dial(t, p)
	far := <-server
	say(t, client, "question")
	require.NoError(t, client.CloseWrite())
	require.Equal(t, "question", hearAll(t, far))
	say(t, far, "answer")
	require.NoError(t, far.Close())
	require.Equal(t, "answer", hearAll(t, client))
}

func TestATargetThatIsNotThereResets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p := start(t, listener.Addr().String())
	requireRefused(t, p)
}

// Each request is one byte, and so is its answer.
func TestAWatcherNeverCountsMoreUnansweredThanTheClientHas(t *testing.T) {
	p := startEcho(t)
	p.SetDelay(2 * time.Millisecond)
	var open, most, seenUp atomic.Int64
	p.Watch(func(conn uint64, d proxy.Direction, b []byte) {
		if conn != 1 {
			t.Errorf("connection %d", conn)
		}
		if d == proxy.Down {
			open.Add(-int64(len(b)))
			return
		}
		seenUp.Add(int64(len(b)))
		now := open.Add(int64(len(b)))
		for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
		}
	})
	socket := dial(t, p)
	for range 10 {
		say(t, socket, "seven77")
		require.Equal(t, "seven77", hear(t, socket, 7))
	}
	require.EqualValues(t, 7, most.Load(), "the delay hides nothing, and adds nothing")
	require.EqualValues(t, 70, seenUp.Load())
	p.Watch(nil)
	roundTrip(t, socket)
	require.EqualValues(t, 70, seenUp.Load())
}

func start(t testing.TB, target string) *proxy.Proxy {
	p, err := proxy.Listen("127.0.0.1:0", target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// serve gives a proxy to a target that handles each connection.
func serve(t testing.TB, handle func(*net.TCPConn)) *proxy.Proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { handle(socket.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		running.Wait()
	})
	return start(t, listener.Addr().String())
}

func startEcho(t testing.TB) *proxy.Proxy {
	return serve(t, func(socket *net.TCPConn) {
		_, _ = io.Copy(socket, socket)
		_ = socket.Close()
	})
}

type sink struct{ received chan int64 }

// startSink has a target that counts what it is sent on each connection.
func startSink(t testing.TB) (*proxy.Proxy, sink) {
	s := sink{make(chan int64, 16)}
	return serve(t, func(socket *net.TCPConn) {
		buffer, total := make([]byte, 1<<20), int64(0)
		for {
			n, err := socket.Read(buffer)
			total += int64(n)
			if err != nil {
				break
			}
		}
		s.received <- total
		_ = socket.Close()
	}), s
}

// startPair has a target that hands out its sockets.
func startPair(t testing.TB) (*proxy.Proxy, <-chan *net.TCPConn) {
	sockets := make(chan *net.TCPConn, 16)
	return serve(t, func(socket *net.TCPConn) {
		t.Cleanup(func() { _ = socket.Close() })
		sockets <- socket
	}), sockets
}

func dial(t testing.TB, p *proxy.Proxy) *net.TCPConn {
	socket, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket.(*net.TCPConn)
}

// roundTrip sends a byte to an echo and awaits it.
func roundTrip(t testing.TB, socket *net.TCPConn) time.Duration {
	begin := time.Now()
	say(t, socket, "x")
	require.Equal(t, "x", hear(t, socket, 1))
	return time.Since(begin)
}

func say(t testing.TB, socket *net.TCPConn, text string) {
	_, err := io.WriteString(socket, text)
	require.NoError(t, err)
}

func hear(t testing.TB, socket *net.TCPConn, n int) string {
	b := make([]byte, n)
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.ReadFull(socket, b)
	require.NoError(t, err)
	return string(b)
}

// hearAll reads to an end in order.
func hearAll(t testing.TB, socket *net.TCPConn) string {
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	b, err := io.ReadAll(socket)
	require.NoError(t, err)
	return string(b)
}

// requireSilence gives a leak the time to show itself.
func requireSilence(t testing.TB, socket *net.TCPConn) {
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := socket.Read(make([]byte, 1))
	var failed net.Error
	require.ErrorAs(t, err, &failed)
	require.True(t, failed.Timeout(), "%v", err)
}

func requireReset(t testing.TB, socket *net.TCPConn) {
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.Copy(io.Discard, socket)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// requireRefused takes a reset from connecting or, a moment later, from reading.
func requireRefused(t testing.TB, p *proxy.Proxy) {
	socket, err := net.Dial("tcp", p.Address())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	defer socket.Close()
	requireReset(t, socket.(*net.TCPConn))
}

func requireNoError(t testing.TB, err error) {
	if err != nil {
		t.Error(err)
	}
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = random.Read(b)
	return b
}

func BenchmarkThroughput(b *testing.B) {
	for _, delay := range []time.Duration{0, 70 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			p, target := startSink(b)
			p.SetDelay(delay)
			socket := dial(b, p)
			chunk := make([]byte, 1<<20)
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				_, err := socket.Write(chunk)
				require.NoError(b, err)
			}
			require.NoError(b, socket.CloseWrite())
			<-target.received
		})
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	p := startEcho(b)
	socket := dial(b, p)
	for b.Loop() {
		roundTrip(b, socket)
	}
}
