package grpcserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/budget"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/wire"
	"strandline.dev/test/resident"
)

// memoryOfServer is what stalledServer may use.
const memoryOfServer = 512 << 20

// stalledServerVariable makes the test's binary run stalledServer.
const stalledServerVariable = "STRANDLINE_TEST_STALLED_SERVER"

// stalledServer is a process of its own, so that what it holds is not mixed up with
// what its clients do. Its log answers nothing until its standard input says "go on".
func stalledServer() error {
	budget.Limit(memoryOfServer)
	go budget.Release(context.Background(), memoryOfServer)
	parts := budget.New(memoryOfServer)
	var mu sync.Mutex
	var held []func(sequence.Answer)
	stalled := true
	n := newFakeNode()
	n.append = func(_ *sequence.Append, done func(sequence.Answer)) {
		mu.Lock()
		hold := stalled
		if hold {
			held = append(held, done)
		}
		mu.Unlock()
		if !hold {
			done(sequence.Answer{})
		}
	}
	s := rpc.New(rpc.Options{Appends: parts.Appends, Inflow: parts.Inflow})
	Register(s, n)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		in := bufio.NewReader(os.Stdin)
		for {
			command, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			if command == "go on\n" {
				mu.Lock()
				stalled = false
				for _, done := range held {
					done(sequence.Answer{})
				}
				held = nil
				mu.Unlock()
			}
			fmt.Println(parts.Appends.Used(), parts.Inflow.Used())
		}
	}()
	return s.Serve(l)
}

type stalledProcess struct {
	*testing.T
	command *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
	address string
}

func startStalledServer(t *testing.T) *stalledProcess {
	t.Helper()
	p := &stalledProcess{T: t, command: exec.Command(os.Args[0])}
	p.command.Env = append(os.Environ(), stalledServerVariable+"=1")
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	require.NoError(t, err)
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		require.NoError(t, p.command.Wait())
	})
	p.address = p.line()
	return p
}

func (p *stalledProcess) line() string {
	p.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(p, err)
	return strings.TrimSpace(line)
}

// used is what is taken of the budget, after a command.
func (p *stalledProcess) used(command string) (appends, inflow int64) {
	p.Helper()
	_, err := fmt.Fprintln(p.in, command)
	require.NoError(p, err)
	_, err = fmt.Sscan(p.line(), &appends, &inflow)
	require.NoError(p, err)
	return appends, inflow
}

// resident is what the process has in memory, now and at the most.
func (p *stalledProcess) resident() (now, most int64) {
	p.Helper()
	return resident.Of(p, p.command.Process.Pid)
}

// dialWithLittle leaves the kernel little to keep for a client.
func dialWithLittle(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetWriteBuffer(16 << 10)
}

func (p *stalledProcess) dial() *grpc.ClientConn {
	p.Helper()
	conn, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec)), grpc.WithContextDialer(dialWithLittle))
	require.NoError(p, err)
	p.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A thousand producers that send all they can to a log which answers nothing stay
// within the node's memory, on a few connections or on one each; others are answered
// meanwhile; and the memory is given back when they have gone.
func TestAThousandProducersOnAStalledLogStayWithinTheNodesMemory(t *testing.T) {
	tests := []struct{ connections, bytes int }{{1000, 1 << 20}, {1000, 64 << 10}, {4, 100}}
	if underRaceDetector {
		tests = tests[:1] // for races one is as good as the other, and takes a minute less
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d connections, requests of %d bytes", test.connections, test.bytes), func(t *testing.T) {
			testStalledProducers(t, test.connections, batchOf(t, 0, strings.Repeat("x", test.bytes)))
		})
	}
}

func testStalledProducers(t *testing.T, connections int, batch record.Batch) {
	const producers = 1000
	most, atLast, patience := int64(memoryOfServer), int64(memoryOfServer/2), time.Minute
	if underRaceDetector {
		most, atLast, patience = 10*most, 10*most, 5*patience
	}
	p := startStalledServer(t)
	began := time.Now()
	sending, stop := context.WithCancel(t.Context())
	defer stop()
	var sent atomic.Int64
	var dialled []*grpc.ClientConn
	var senders sync.WaitGroup
	for range connections {
		conn := p.dial()
		dialled = append(dialled, conn)
		for range producers / connections {
			stream, err := strandlinev1.NewLogServiceClient(conn).Append(sending)
			require.NoError(t, err)
			senders.Go(func() {
				for stream.SendMsg(&wire.AppendRequest{Log: "orders", Batches: batch}) == nil {
					sent.Add(1)
				}
			})
		}
	}
	// Until nobody gets anything off any more, or the node holds too much.
	for last, since := int64(-1), time.Now(); time.Since(since) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
		if now := sent.Load(); now != last {
			last, since = now, time.Now()
		}
		_, peak := p.resident()
		require.Less(t, peak, most, "%d requests sent", sent.Load())
	}
	other, err := grpc_health_v1.NewHealthClient(p.dial()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.ForceCodecV2(wire.Codec))
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, other.Status)
	appends, inflow := p.used("look")
	_, peak := p.resident()
	t.Logf("%v: %d requests of %d bytes sent: %d MiB resident at the most; appends %d MiB, inflow %d MiB", time.Since(began), sent.Load(), len(batch), peak>>20, appends>>20, inflow>>20)

	stop()
	for _, conn := range dialled {
		senders.Go(func() { _ = conn.Close() }) // which waits while it is not read
	}
	senders.Wait()
	t.Logf("%v: all have gone", time.Since(began))
	p.used("go on")
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		appends, inflow = p.used("look")
		now, _ := p.resident()
		if appends == 0 && inflow == 0 && now < atLast {
			t.Logf("%v: %d MiB resident", time.Since(began), now>>20)
			return
		}
		require.True(t, time.Now().Before(end), "still held: %d bytes, appends %d, inflow %d", now, appends, inflow)
	}
}
