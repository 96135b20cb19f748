package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"strandline.dev/client"
)

// gate lets a client receive so many bytes of a connection, and the others once it is opened:
// until then the socket has them.
type gate struct {
	after int64
	ctx   context.Context
	open  context.CancelFunc

	mu    sync.Mutex
	conns []*net.TCPConn
}

func newGate(t *testing.T, after int64) *gate {
	g := &gate{after: after}
	g.ctx, g.open = context.WithCancel(t.Context())
	return g
}

// waiting is how many bytes of a stream wait in a client's socket before the log is trimmed: any machine
// lets a socket have so many.
const waiting = 32 << 10

// dial makes a socket that has room for a batch, and for little more.
func (g *gate) dial(ctx context.Context, address string) (net.Conn, error) {
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 6*waiting) })
	}}
	c, err := small.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, c.(*net.TCPConn))
	return &gated{Conn: c, gate: g, left: g.after}, nil
}

// unread is the most bytes that wait in one of the sockets.
func (g *gate) unread() (most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		raw, err := c.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
				most = max(most, n)
			}
		})
	}
	return most
}

// ended reports whether the server has closed the first connection too.
func (g *gate) ended() bool {
	state, err := state(g.conns[0])
	return err == nil && state != unix.BPF_TCP_FIN_WAIT1 && state != unix.BPF_TCP_FIN_WAIT2
}

// lost reports whether a connection is not open any more.
func (g *gate) lost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.conns, func(c *net.TCPConn) bool {
		state, err := state(c)
		return err != nil || state != unix.BPF_TCP_ESTABLISHED
	})
}

func state(c *net.TCPConn) (state uint8, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	failed := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(failed, err); err != nil {
		return 0, err
	}
	return info.State, nil
}

type gated struct {
	net.Conn
	gate *gate
	left int64
}

func (c *gated) Read(b []byte) (int, error) {
	if c.left <= 0 {
		<-c.gate.ctx.Done()
		c.left = 1 << 40
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// lateReader is a client that stops receiving in the middle of what it reads.
type lateReader struct {
	name  string
	gate  *gate
	next  func() (offset int64, value []byte, err error)
	close func()
}

func (r *lateReader) awaitUnread(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.gate.unread() >= waiting }, time.Minute, time.Millisecond, r.name)
}

// Whatever has been handed to a socket stays what it was, though it is trimmed, and its file
// and its memory could be used again, long before the client receives it.
func TestAReaderThatReceivesLateGetsWhatItsOffsetsHeld(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(t *testing.T) {
			t.Parallel()
			w := startLate(t, encrypted)
			const records = 800
			w.append(t, records)
			w.readAll(t, records) // verifies what lies in files
			old := w.segments(t)
			kafka := w.byKafka(t)
			late := w.byClients(t)
			for _, r := range late {
				r.awaitUnread(t)
			}
			// A log that is trimmed while it is busy, with half of a segment since it was idle, could begin
			// new segments in the files of old ones: until none of those is there, and then a few more.
			start := int64(220)
			for left := 4; left > 0; start = min(start+100, w.end-100) {
				w.appendMeanwhile(t, 100, func() {
					_, _, err := w.client.Admin().Trim(t.Context(), "orders", start, false)
					require.NoError(t, err)
				})
				if w.gone(old) {
					left--
				}
			}
			kafka()
			for _, r := range late {
				r.receive(t, records)
			}
		})
	}
}

// receive lets the client receive what is in its socket, and what the server still sends, of so many records.
// On a machine that is so slow that one side has given the connection up there is nothing to receive.
func (r *lateReader) receive(t *testing.T, records int64) {
	t.Helper()
	lost := r.gate.lost()
	r.gate.open()
	got := int64(lateFrom)
	for ; got < lateTo; got++ {
		offset, v, err := r.next()
		if err != nil || offset >= records {
			t.Logf("%s: after offset %d: %v", r.name, got-1, err) // the rest is gone
			break
		}
		require.Equal(t, got, offset, r.name)
		require.True(t, value(offset) == string(v), "%s: offset %d holds %.20q", r.name, offset, v)
	}
	if !lost {
		require.Greater(t, got, int64(lateFrom+received/valueBytes), "%s: more than it received before", r.name)
	}
	r.close()
}

// Streams begin a MiB before the end of the third segment, which is sent from its file behind
// that, and read on in the fourth, which a reader that waits for its client may hold.
const (
	valueBytes = 20_000
	received   = 300_000 // bytes before the client stops
	lateFrom   = 260
	lateTo     = 410
)

func value(i int64) string { return strings.Repeat(fmt.Sprintf("%09d ", i), valueBytes/10) }

// lateWorld is a node with a log of which little is in memory.
type lateWorld struct {
	server  *Server
	client  *client.Client
	options []client.Option
	tls     *tls.Config
	dir     string
	end     int64
}

func startLate(t *testing.T, encrypted bool) *lateWorld {
	t.Helper()
	w := &lateWorld{dir: t.TempDir()}
	o := alone(t, w.dir)
	o.Node.Name = "a"
	w.prepare(t, encrypted, &o)
	var err error
	w.server, err = Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.server.Close()) })
	w.create(t, 1, w.server.GRPC())
	return w
}

// prepare changes the options of the nodes of a world, and sets those of its clients.
func (w *lateWorld) prepare(t *testing.T, encrypted bool, nodes ...*Options) {
	t.Helper()
	w.options = []client.Option{client.WithRetryTime(time.Minute)}
	for _, o := range nodes {
		o.Node.SegmentBytes, o.Node.Memory = 2<<20, 128<<20 // the first MiB of a segment is read, the rest may be sent
	}
	if !encrypted {
		return
	}
	a := newAuthority(t)
	for _, o := range nodes {
		o.Credentials = a.credentials(o.Node.Name)
	}
	f := a.user("alice")
	w.options = append(w.options, client.WithCertificates(f.Authority, f.Certificate, f.Key))
	w.tls = a.credentials("a").Client("127.0.0.1")
}

func (w *lateWorld) create(t *testing.T, replicas int, nodes ...string) {
	t.Helper()
	var err error
	w.client, err = client.Dial(nodes, w.options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.client.Close()) })
	_, err = w.client.Admin().CreateLog(t.Context(), "orders", client.LogConfig{Replicas: replicas})
	require.NoError(t, err)
}

// append appends so many records, five to a batch.
func (w *lateWorld) append(t *testing.T, count int) {
	t.Helper()
	w.appendMeanwhile(t, count, func() {})
}

// appendMeanwhile has something done when most of the records are there.
func (w *lateWorld) appendMeanwhile(t *testing.T, count int, do func()) {
	t.Helper()
	p, err := w.client.Producer(t.Context(), "orders")
	require.NoError(t, err)
	for i := range count / 5 {
		if i == count/5*4/5 {
			do()
		}
		var batch []client.Record
		for range 5 {
			batch = append(batch, client.Record{Value: []byte(value(w.end))})
			w.end++
		}
		_, err := p.AppendBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	require.NoError(t, p.Close(t.Context()))
}

func (w *lateWorld) segments(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "logs", "1", "*", "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(files), 4)
	return files
}

// gone reports whether the segments of the log have left it, but for the newest.
func (w *lateWorld) gone(segments []string) bool {
	return !slices.ContainsFunc(segments[:len(segments)-1], exists)
}

func (w *lateWorld) readAll(t *testing.T, records int) {
	t.Helper()
	r, err := w.client.Reader(t.Context(), "orders")
	require.NoError(t, err)
	for range records {
		_, err = r.Next(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, r.Close())
}

// byClients reads over the streams of our own clients.
func (w *lateWorld) byClients(t *testing.T, options ...client.ReaderOption) []*lateReader {
	t.Helper()
	return []*lateReader{
		w.byClient(t, "lean", options),
		w.byClient(t, "gRPC", options, client.WithStreamsOverGRPC()),
	}
}

func (w *lateWorld) byClient(t *testing.T, name string, reading []client.ReaderOption, options ...client.Option) *lateReader {
	t.Helper()
	late := &lateReader{name: name, gate: newGate(t, received)}
	c, err := client.Dial([]string{w.server.GRPC()}, append(append(options, w.options...), client.WithDialer(late.gate.dial))...)
	require.NoError(t, err)
	r, err := c.Reader(t.Context(), "orders", append(reading, client.WithStartOffset(lateFrom), client.WithEndOffset(lateTo))...)
	require.NoError(t, err)
	first := make(chan error, 1)
	var record client.Record
	go func() {
		var err error
		record, err = r.Next(t.Context())
		first <- err
	}()
	late.next = func() (int64, []byte, error) {
		if first != nil {
			err := <-first
			first = nil
			return record.Offset, record.Value, err
		}
		got, err := r.Next(t.Context())
		return got.Offset, got.Value, err
	}
	late.close = func() {
		require.NoError(t, r.Close())
		require.NoError(t, c.Close())
	}
	return late
}

// consumer is a connection to Kafka's port.
type consumer struct {
	net.Conn
	gate *gate
}

func (w *lateWorld) consumer(t *testing.T) *consumer {
	t.Helper()
	g := newGate(t, 1<<40)
	conn, err := g.dial(t.Context(), w.server.Kafka())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if w.tls != nil {
		conn = tls.Client(conn, w.tls)
	}
	return &consumer{conn, g}
}

// fetch asks for a batch, and receives nothing of the answer but its length.
func (c *consumer) fetch(t *testing.T, offset int64) (answer int64) {
	t.Helper()
	c.ask(t, offset)
	var length [4]byte
	_, err := io.ReadFull(c, length[:])
	require.NoError(t, err)
	return int64(binary.BigEndian.Uint32(length[:]))
}

func (c *consumer) ask(t *testing.T, offset int64) {
	t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.ReplicaID, q.MaxBytes = 11, -1, 1
	topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 1 // the first batch comes whatever its size is
	topic.Topic, topic.Partitions = "orders", append(topic.Partitions, partition)
	q.Topics = append(q.Topics, topic)
	_, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 7))
	require.NoError(t, err)
}

func (c *consumer) receive(t *testing.T, answer int64) []byte {
	t.Helper()
	b := make([]byte, answer)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return b
}

// byKafka reads on, until the system sends batches from the file. Of the last answer it receives the
// length: all the rest is in the socket, and the server is done with it.
func (w *lateWorld) byKafka(t *testing.T) (late func()) {
	t.Helper()
	var c *consumer
	var want []byte
	for range 2 {
		c = w.consumer(t)
		offset := int64(110) // in the second segment, of which no stream keeps a hold; the first is never recycled
		for ; offset < 185; offset += 5 {
			c.receive(t, c.fetch(t, offset))
		}
		answer := c.fetch(t, offset)
		if want == nil {
			want = c.receive(t, answer)
			require.NoError(t, c.Close())
			continue
		}
		require.Len(t, want, int(answer))
		require.Eventually(t, func() bool { return w.tls != nil && c.gate.unread() >= waiting || c.gate.unread() == len(want) }, time.Minute, time.Millisecond)
		// The server ends the connection and releases the segment. What it has sent is in the client's socket.
		require.NoError(t, c.gate.conns[0].CloseWrite())
		require.Eventually(t, c.gate.ended, time.Minute, time.Millisecond)
	}
	return func() {
		require.True(t, bytes.Equal(want, c.receive(t, int64(len(want)))), "Kafka: the answer is another one")
	}
}
