package secure

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

var (
	bad  = netip.MustParsePrefix("10.0.0.1/32")
	good = netip.MustParsePrefix("10.0.0.2/32")
)

func noneFailing() *failing { return &failing{token: failingToken, full: map[netip.Prefix]time.Time{}} }

// begins counts what becomes of n handshakes that begin at once.
func (f *failing) begins(n int, from netip.Prefix, now time.Time) (begin, waiting, refused int) {
	for range n {
		switch wait, _, ok := f.delay(from, now); {
		case !ok:
			refused++
		case wait == 0:
			begin++
		default:
			waiting++
		}
	}
	return begin, waiting, refused
}

func TestAnAddressWhoseHandshakesFailIsSlowedDownAndNoOther(t *testing.T) {
	f, now := noneFailing(), time.Unix(1, 0)
	begin, waiting, refused := f.begins(10*failingRate, bad, now)
	require.Equal(t, []int{10 * failingRate, 0, 0}, []int{begin, waiting, refused}, "none has failed")
	f.ended(bad, false, true, now)
	begin, waiting, refused = f.begins(10*failingRate, bad, now)
	require.Equal(t, failingRate-1, begin)
	require.Equal(t, failingRate, waiting, "as many as begin within a second")
	require.Equal(t, 8*failingRate+1, refused)
	begin, waiting, refused = f.begins(10*failingRate, good, now)
	require.Equal(t, []int{10 * failingRate, 0, 0}, []int{begin, waiting, refused})

	// It is forgotten when it is quiet, and at no time are there too many.
	now = now.Add(5 * time.Second)
	for i := range uint32(2 * maxFailing) {
		f.ended(netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, i+1<<24))), 32), false, true, now)
	}
	require.Len(t, f.full, maxFailing)
	require.NotContains(t, f.full, bad)
	now = now.Add(sweepEvery)
	f.ended(bad, false, true, now)
	require.Len(t, f.full, 1)
}

func TestAnAddressIsNotSlowedDownForLongAfterAFailure(t *testing.T) {
	f, now := noneFailing(), time.Unix(1, 0)
	f.ended(bad, false, true, now)
	now = now.Add(failingToken)
	begin, _, _ := f.begins(10*failingRate, bad, now)
	require.Equal(t, 10*failingRate, begin, "no other address needs to fail for that")
	require.Empty(t, f.full)
}

// Clients that succeed begin more than failingRate a second, all the time, so that the bucket
// would never be full again if they paid.
func TestHandshakesThatSucceedDoNotKeepTheirAddressSlow(t *testing.T) {
	f, now := noneFailing(), time.Unix(1, 0)
	f.ended(bad, false, true, now)
	for range 10 * failingRate {
		wait, taken, ok := f.delay(bad, now)
		require.True(t, ok)
		require.Zero(t, wait)
		now = now.Add(failingToken / 20)
		f.ended(bad, taken, false, now)
	}
	require.Empty(t, f.full)
}

// Whoever begins many handshakes while the bucket is full, and only then fails them all, may not
// do so again before they are paid for.
func TestHandshakesThatFailTogetherAreAllPaidFor(t *testing.T) {
	f, start := noneFailing(), time.Unix(1, 0)
	failed := 0
	for now := start; now.Before(start.Add(100 * time.Second)); now = now.Add(failingToken) {
		var taken []bool
		for range maxHandshakesOfAddress {
			if _, token, ok := f.delay(bad, now); ok {
				taken = append(taken, token)
			}
		}
		for _, token := range taken {
			f.ended(bad, token, true, now)
		}
		failed += len(taken)
	}
	require.InDelta(t, 100*failingRate, failed, 2*maxHandshakesOfAddress)
}

func TestOnlyWhatAClientDidCountsAsItsFailure(t *testing.T) {
	for _, theirs := range []error{io.EOF, syscall.ECONNRESET, errTooMuch, errors.New("tls: bad certificate")} {
		require.True(t, clientFailed(theirs, true), theirs)
		require.False(t, clientFailed(theirs, false), "it has sent nothing")
	}
	for _, ours := range []error{
		nil, fmt.Errorf("%w: rate", errNoTurn), &net.OpError{Op: "read", Err: net.ErrClosed}, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
	} {
		require.False(t, clientFailed(ours, true), ours)
	}
}

func TestAClientIsNotSlowedDownForWhatItDidNotDo(t *testing.T) {
	ca := newAuthority(t, "prod")
	known := func(p *port) int {
		p.failing.mu.Lock()
		defer p.failing.mu.Unlock()
		return len(p.failing.full)
	}
	send := func(p *port, what string) {
		before := p.refused(handshakeFailed)
		probe, err := net.Dial("tcp", p.Addr().String())
		require.NoError(t, err)
		_, err = probe.Write([]byte(what))
		require.NoError(t, err)
		require.NoError(t, probe.Close())
		require.Eventually(t, func() bool { return p.refused(handshakeFailed) > before }, time.Minute, time.Millisecond)
	}
	for _, plain := range []bool{false, true} {
		p := openPort(t, "a", ca.node("a"), GateOptions{Plain: plain}, Port{})
		send(p, "")
		require.Zero(t, known(p), "it looked whether the port is open")
		send(p, "\x16junk")
		require.Equal(t, 1, known(p))
	}
	p := openPort(t, "a", ca.node("a"), GateOptions{}, Port{})
	p.begin.SetBurst(0) // others have all turns
	_, _, err := p.connect(asClient(t, Files{Authority: ca.ca()}))
	require.Error(t, err)
	require.Zero(t, known(p))
}

func TestAHandshakeThatIsSlowedDownWaitsForItsPaceAndPaysOnlyIfItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		l := &encryptedListener{countingListener: &countingListener{gate: g, port: Port{Name: "test"}}}
		l.begun.ofEach = map[netip.Prefix]int{}
		l.closing, l.close = context.WithCancel(t.Context())
		client, server := net.Pipe()
		from := wherever(server.RemoteAddr())
		const wait = failingWait / 2
		full := time.Now().Add(failingBurst + wait - failingToken)
		g.failing.full[from] = full
		fullAt := func() time.Time {
			g.failing.mu.Lock()
			defer g.failing.mu.Unlock()
			return g.failing.full[from]
		}
		waitsFor := func() waits {
			l.begun.mu.Lock()
			defer l.begun.mu.Unlock()
			return l.begun.all.Front().Value.(*handshake).waits
		}

		l.begun.closed = true
		l.receive(server)
		require.Equal(t, full, fullAt(), "it was closed at once")
		require.NoError(t, client.Close())

		l.begun.closed = false
		client, server = net.Pipe()
		l.receive(server)
		synctest.Wait()
		require.Equal(t, full.Add(failingToken), fullAt())
		require.Equal(t, forPace, waitsFor())
		time.Sleep(wait)
		synctest.Wait()
		require.Equal(t, forClient, waitsFor())
		require.NoError(t, client.Close())
		l.tasks.Wait()
		require.Equal(t, full, fullAt(), "it has sent nothing")
		l.close()
	})
}

// guess tries a wrong password at an address, or the right one, and reports whether it was compared.
func (g *Gate) guess(t *testing.T, ip string, right bool) (compared bool) {
	client, server := net.Pipe()
	defer client.Close()
	c := &conn{Conn: server, logins: &g.logins}
	ended, ok := BeginLogin(t.Context(), addr{&net.TCPAddr{IP: net.ParseIP(ip)}, c})
	if ok {
		ended(!right)
		require.NoError(t, server.Close())
		return true
	}
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the connection is closed")
	return false
}

func TestLoginsThatFailSlowDownThoseOfTheirAddressAndNoHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begin := NewGate(GateOptions{}), time.Now()
		for range 10 * loginRate {
			require.True(t, g.guess(t, "10.0.0.1", false))
		}
		require.InDelta(t, 9, time.Since(begin).Seconds(), 0.5, "one after the other")

		begin = time.Now()
		require.True(t, g.guess(t, "10.0.0.2", false))
		require.Zero(t, time.Since(begin), "others are not concerned")
		wait, _, ok := g.failing.delay(bad, time.Now())
		require.True(t, ok)
		require.Zero(t, wait, "who has a certificate or a token at this address is not either")

		// Many at once.
		results := make(chan bool)
		for range 100 * loginRate {
			go func() { results <- g.guess(t, "10.0.0.1", false) }()
		}
		compared := 0
		for range 100 * loginRate {
			if <-results {
				compared++
			}
		}
		require.LessOrEqual(t, compared, 2*loginRate)

		time.Sleep(failingOwed + failingBurst)
		begin = time.Now()
		for range 10 * loginRate {
			require.True(t, g.guess(t, "10.0.0.1", true))
		}
		require.Zero(t, time.Since(begin), "it is forgiven soon after it stopped, and what is right costs nothing")
	})
}

// login begins a login at an address, without a client that waits.
func (g *Gate) login(ctx context.Context, ip string) (ended func(failed bool), ok bool) {
	_, server := net.Pipe()
	return BeginLogin(ctx, addr{&net.TCPAddr{IP: net.ParseIP(ip)}, &conn{Conn: server, logins: &g.logins}})
}

// Whoever begins many logins while the bucket is full, and only then fails them all, gets no more guesses than one who
// fails them one after the other.
func TestLoginsThatFailTogetherAreAllPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		const round, rounds = 10 * time.Second, 10 // an address is forgiven in a round
		compared := 0
		for range rounds {
			ctx, cancel := context.WithTimeout(t.Context(), round)
			results := make(chan int)
			for range 1000 {
				go func() {
					ended, ok := g.login(ctx, "10.0.0.1")
					if !ok {
						results <- 0
						return
					}
					time.Sleep(time.Second) // all that may begin do so before the first ends
					ended(true)
					results <- 1
				}()
			}
			for range 1000 {
				compared += <-results
			}
			<-ctx.Done()
			cancel()
		}
		require.LessOrEqual(t, compared, (int(round/time.Second)*rounds+1)*loginRate)
		require.Greater(t, compared, rounds*loginRate)
	})
}

// Others at the address have the right password, and begin together.
func TestLoginsThatSucceedTogetherDoNotWaitForTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begin := NewGate(GateOptions{}), time.Now()
		results := make(chan bool)
		const all, each = 1000, time.Millisecond
		for range all {
			go func() {
				ended, ok := g.login(t.Context(), "10.0.0.1")
				if ok {
					time.Sleep(each)
					ended(false)
				}
				results <- ok
			}()
		}
		for range all {
			require.True(t, <-results)
		}
		require.LessOrEqual(t, time.Since(begin), all*each/loginRate)
	})
}

// Those of one address do not keep those of another from their turn.
func TestLoginsOfOneAddressDelayThoseOfAnotherByOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		const each = time.Millisecond
		for range 1000 {
			go func() {
				if ended, ok := g.login(t.Context(), "10.0.0.1"); ok {
					time.Sleep(each)
					ended(true)
				}
			}()
		}
		synctest.Wait()
		begin := time.Now()
		ended, ok := g.login(t.Context(), "10.0.0.2")
		require.True(t, ok)
		require.LessOrEqual(t, time.Since(begin), each)
		ended(false)
		time.Sleep(time.Minute)
		require.Equal(t, loginRate, g.logins.unpaid.Free())
	})
}

func TestLoginsThatFailSlowDownThoseOfTheirAddressWithoutEncryptionToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		guesses := func(ip string) time.Duration {
			begin := time.Now()
			for range 10 * loginRate {
				ended, ok := BeginLogin(t.Context(), outer{plainAddr{&net.TCPAddr{IP: net.ParseIP(ip)}, &counted{logins: &g.logins}}})
				require.True(t, ok)
				ended(true)
			}
			return time.Since(begin)
		}
		require.InDelta(t, 9, guesses("10.0.0.1").Seconds(), 0.5, "one after the other")
		require.Zero(t, guesses("127.0.0.1"), "programs of this machine all have this address")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := NewGate(GateOptions{})
	gated := g.Listen(l, Port{Name: "test", Most: 1})
	defer gated.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := gated.Accept()
	require.NoError(t, err)
	defer server.Close()
	at, ok := server.RemoteAddr().(plainAddr)
	require.True(t, ok)
	require.Same(t, &g.logins, at.conn.logins)
	require.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
	require.Equal(t, "127.0.0.1/32", Whereabouts(outer{server.RemoteAddr()}))
}

// outer is an address that another layer has added something to.
type outer struct{ net.Addr }

func (o outer) Unwrap() net.Addr { return o.Addr }

func TestAClientThatGaveUpWhileOthersHadAllTurnsHasNotFailed(t *testing.T) {
	files := newAuthority(t, "prod").node("a")
	for held, known := range map[time.Duration]int{failingWait / 2: 1, 2 * failingWait: 0} {
		synctest.Test(t, func(t *testing.T) {
			credentials, err := OpenNode("a", files, nil)
			require.NoError(t, err)
			g := NewGate(GateOptions{Credentials: credentials})
			l := &encryptedListener{countingListener: &countingListener{gate: g, port: Port{Name: "test"}}}
			l.begun.ofEach = map[netip.Prefix]int{}
			l.closing, l.close = context.WithCancel(t.Context())
			g.begin.SetLimit(rate.Every(held))
			g.begin.SetBurst(1)
			require.True(t, g.begin.Allow())

			client, server := net.Pipe()
			l.receive(server)
			ctx, cancel := context.WithTimeout(t.Context(), held/2)
			defer cancel()
			require.Error(t, tls.Client(client, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx))
			_ = client.Close()
			l.tasks.Wait()
			require.Len(t, g.failing.full, known)
			l.close()
		})
	}
}
