package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/transport/secure"
)

// BenchmarkAppendsBesideIntruders is the time of an honest client's appends while another
// process sends b.N requests that are malformed, or whose sender cannot say who it is, to all
// ports, and keeps handshakes half open; and without it, in turn. Nobody is let in. The
// intruders stand for other machines: what they do is left over by the node and its client.
//
//	go test ./internal/server -run - -bench AppendsBesideIntruders -benchtime 1000000x
func BenchmarkAppendsBesideIntruders(b *testing.B) {
	a, other := newAuthority(b), newAuthority(b)
	o := alone(b, b.TempDir())
	o.Node.Name, o.Credentials = "a", a.credentials("a")
	s, err := Start(o)
	require.NoError(b, err)
	honest := a.dial(b, s.GRPC())
	_, err = honest.Admin().CreateLog(b.Context(), "orders", client.LogConfig{})
	require.NoError(b, err)
	p, err := honest.Producer(b.Context(), "orders")
	require.NoError(b, err)
	for range 100 { // from here on it needs no other connection
		_, err = p.Append(b.Context(), make([]byte, 1024))
		require.NoError(b, err)
	}
	job := intrusion{Half: s.GRPC(), Ports: []string{s.GRPC(), s.Kafka(), s.HTTP()}, Count: b.N/rounds + 1, Files: other.user("alice")}

	// measure appends until a time is up, or what is beside it is done.
	measure := func(done <-chan struct{}) (times []time.Duration) {
		for {
			began := time.Now()
			_, err := p.Append(b.Context(), make([]byte, 1024))
			require.NoError(b, err)
			times = append(times, time.Since(began))
			select {
			case <-done:
				return times
			default:
			}
		}
	}
	var quiet, flooded []time.Duration
	var ratios []float64
	before := a.letIn(b, s)
	b.ResetTimer()
	for range rounds {
		flood := make(chan struct{})
		go func() {
			defer close(flood)
			job.start(b)
		}()
		began := time.Now()
		with := measure(flood)
		took := time.Since(began)
		over := make(chan struct{})
		time.AfterFunc(min(took, 10*time.Second), func() { close(over) })
		without := measure(over)
		flooded, quiet = append(flooded, with...), append(quiet, without...)
		ratios = append(ratios, float64(nth(with, 99))/float64(nth(without, 99)))
		require.Equal(b, before, a.letIn(b, s), "somebody was let in")
	}
	b.StopTimer()
	slices.Sort(ratios)
	b.ReportMetric(float64(nth(quiet, 50).Microseconds()), "quiet-p50-us")
	b.ReportMetric(float64(nth(quiet, 99).Microseconds()), "quiet-p99-us")
	b.ReportMetric(float64(nth(flooded, 50).Microseconds()), "flood-p50-us")
	b.ReportMetric(float64(nth(flooded, 99).Microseconds()), "flood-p99-us")
	b.ReportMetric(ratios[len(ratios)/2], "p99-ratio")
	require.NoError(b, p.Close(b.Context()))
	require.NoError(b, honest.Close())
	require.NoError(b, s.Close())
}

// rounds of a flood and of quiet.
const rounds = 4

// intrusion is what the process of the intruders does.
type intrusion struct {
	Half  string   // where handshakes are kept half open
	Ports []string // that get the requests
	Count int
	Files secure.Files // of somebody whom nobody believes
}

// intrudeVariable makes the program of the test that of intruders, see TestMain.
const intrudeVariable = "STRANDLINE_TEST_INTRUDE"

// start runs the intruders' process until it has done all.
func (j intrusion) start(b *testing.B) {
	job, err := json.Marshal(j)
	require.NoError(b, err)
	command := exec.Command("nice", "-n", "19", os.Args[0])
	command.Env = append(os.Environ(), intrudeVariable+"="+string(job))
	out, err := command.CombinedOutput()
	if err != nil {
		b.Errorf("intruders: %v: %s", err, out)
	}
}

// runIntruders is their process. It returns what a port answered that should not have.
func runIntruders(job string) error {
	var j intrusion
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	unbelieved, err := secure.OpenClient(j.Files)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var half sync.WaitGroup
	half.Go(func() { keepHalfOpen(ctx, j.Half) })
	err = intrude(unbelieved, j.Ports, j.Count)
	stop()
	half.Wait()
	return err
}

func nth(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*percent/100)]
}

// letIn is how many connections the ports for clients have let in so far. The one of
// HTTP lets everybody in, for probes, and shows who they are what they may see.
func (a *authority) letIn(t testing.TB, s *Server) (all int) {
	t.Helper()
	code, text, err := a.get(t, s.HTTP(), "/metrics", a.user("alice"))
	require.NoError(t, err)
	require.Equal(t, 200, code)
	for _, found := range regexp.MustCompile(`(?m)^strandline_handshakes_total\{.*port="(?:grpc|kafka)".*\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		all += n
	}
	return all
}

// from is a dialer at an address of the loopback network other than the honest client's.
func from(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))}}
}

// keepHalfOpen keeps halfOpen connections that say nothing, and opens another, one or two
// seconds later, for each that was closed.
func keepHalfOpen(ctx context.Context, address string) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range halfOpen {
		all.Go(func() {
			for ctx.Err() == nil {
				conn, err := from(i).DialContext(ctx, "tcp", address)
				if err == nil {
					end := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = io.Copy(io.Discard, conn) // until it is closed
					end()
					_ = conn.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second + rand.N(time.Second)):
				}
			}
		})
	}
}

// intrude sends so many requests to some ports by turns.
func intrude(unbelieved *secure.Credentials, addresses []string, count int) error {
	var sent atomic.Int64
	var wrong atomic.Pointer[error]
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 7))
			for i := sent.Add(1); i <= int64(count); i = sent.Add(1) {
				conn, err := from(worker).Dial("tcp", addresses[i%int64(len(addresses))])
				if err != nil {
					continue // no port is left for the moment
				}
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				switch i % 40 {
				case 0:
					answer := say(tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), []byte("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
					if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 40") {
						err := fmt.Errorf("a client without a certificate was answered: %.100s", answer)
						wrong.Store(&err)
					}
				case 1:
					config := unbelieved.Client("127.0.0.1")
					config.InsecureSkipVerify, config.VerifyConnection, config.VerifyPeerCertificate = true, nil, nil
					say(tls.Client(conn, config), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
				default:
					say(conn.(*net.TCPConn), malformed(random))
				}
				_ = conn.(*net.TCPConn).SetLinger(0) // no port stays behind
				_ = conn.Close()
			}
		})
	}
	all.Wait()
	if err := wrong.Load(); err != nil {
		return *err
	}
	return nil
}

// say sends what is to be refused and no more, and waits until it is.
func say(conn interface {
	io.ReadWriter
	CloseWrite() error
}, what []byte) (answer []byte) {
	if _, err := conn.Write(what); err == nil && conn.CloseWrite() == nil {
		answer, _ = io.ReadAll(conn)
	}
	return answer
}

// malformed is the beginning of a protocol, or of none.
func malformed(random *rand.Rand) []byte {
	junk := make([]byte, 8+random.IntN(200))
	for i := range junk {
		junk[i] = byte(random.Uint32())
	}
	begin := [][]byte{
		nil, []byte("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), []byte(peer.Magic),
		{0, 0, 0, 20, 0, 18, 0, 3}, {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, {0x16, 3, 1, 0xff, 0xff}, {0x80, 0x2e, 1, 3, 1},
	}[random.IntN(8)]
	return append(slices.Clone(begin), junk...)
}
