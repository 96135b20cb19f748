package kafkaserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/secure"
)

// connection is one client's connection. One goroutine receives its requests
// and hands appends to their logs at once; another answers all in the order in
// which they came, and does for each but an append the work when its turn has
// come. So many appends are in flight, the log decides them in order, and a
// connection holds the memory of one other answer at a time.
//
// When the client goes away, what has been handed to a log is appended all the
// same. What has not been received whole by then is never appended.
type connection struct {
	sending
	server *Server
	line   *rpc.Line[*call]
	in     *bufio.Reader
	// out is what of the answers has not been sent: answers to appends that are
	// ready at the same time leave together.
	out []byte
	// try sends what the client takes without waiting; nil: it cannot be.
	try lean.TryWrite
	// produced is the memory of the answer to a Produce.
	produced kmsg.ProduceResponse
	// ctx ends when the connection does, or when the server stops.
	ctx    context.Context
	cancel context.CancelFunc
	client string // as it calls itself
	// holder is who the client is, as far as it has proved it.
	holder atomic.Pointer[guard.Holder]
	login  login
	// from is where the client connects from: see holderName.
	from string
	// entered ends its place among those that have proved nothing; nil: it has none.
	entered atomic.Pointer[func()]
	// prove notes that the client has proved who it is, see guard.Guard.Connected.
	prove func(context.Context) error
	// unproved is how many bytes have come before that, where it has to.
	unproved int
	// unserved: it was logged that the client asks for what is not served.
	unserved bool
}

func newConnection(s *Server, conn net.Conn) *connection {
	c := &connection{
		sending: sending{conn: conn, metrics: s.metrics}, server: s, from: secure.Whereabouts(conn.RemoteAddr()), line: rpc.NewLine[*call](maxUnanswered), in: bufio.NewReaderSize(conn, readBuffer),
	}
	c.line.Within(s.options.Memory.Answers)
	remote := conn.RemoteAddr()
	h, _ := s.node.Identify(secure.PrincipalAt(remote), remote, "") // without a token nothing can be refused
	c.holder.Store(h)
	c.ctx, c.cancel = context.WithCancel(s.stopping)
	c.sendFile, c.direct = rpc.FileSender(conn)
	if c.try = rpc.TryWriter(conn); c.try != nil {
		c.line.SendBy(&s.answers, c.tryAnswer)
	}
	return c
}

// serve runs until the client leaves or misbehaves, or the server stops.
func (c *connection) serve() {
	defer c.conn.Close()
	defer c.identify()()
	defer c.cancel()
	left, err := c.count()
	defer left()
	if h := c.holder.Load(); err == nil && h != nil && !c.server.node.Believed(h) {
		err = errNoMember // it would be refused everything, and evict looks only when rules change
	}
	if err != nil {
		c.logEnd(err)
		return
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		err := c.receive()
		if c.server.stopping.Err() != nil {
			c.line.Close() // what was received is answered
			return
		}
		c.logEnd(err)
		c.cancel()
		c.line.Break()
	}()
	if err := c.answer(); err != nil {
		c.logEnd(err)
	}
	c.cancel()
	c.line.Break()
	_ = c.conn.Close()
	<-received
	// The calls that are left hold memory of the budget; those in a log's
	// hands give it back themselves.
	for _, left := range c.line.Rest() {
		left.abandon()
	}
}

// logEnd logs what ended the connection, unless it was its client.
func (c *connection) logEnd(err error) {
	var network net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network) || c.ctx.Err() != nil {
		return
	}
	c.server.metrics.misbehaved.Inc()
	c.log("a Kafka connection was closed", "client", c.conn.RemoteAddr().String(), "id", c.client, "reason", err)
}

// logUnserved logs a request that is not served, the first of a connection.
func (c *connection) logUnserved(key, version int16) {
	if !c.unserved {
		c.unserved = true
		c.log("a Kafka client asks for what is not served", "client", c.conn.RemoteAddr().String(), "id", c.client,
			"request", kmsg.NameForKey(key), "version", version)
	}
}

// log logs what a client does wrong, one line in logUnprovedEvery; of those that have to prove who they
// are, and have not, another one: they hide nothing of what others do.
func (c *connection) log(message string, args ...any) {
	every := &c.server.provedLog
	if c.mustProve() {
		every = &c.server.unprovedLog
	}
	every.Do(func() { c.server.logger.Info(message+", perhaps not the only one", args...) })
}

// finish lets no more requests in.
func (c *connection) finish() {
	c.line.Close()
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// cut ends the connection at once.
func (c *connection) cut() {
	c.line.Break()
	c.cancel()
	_ = c.conn.Close()
}

// receive takes requests until the connection fails or the line is closed.
func (c *connection) receive() error {
	for c.line.AwaitRoom() {
		c.slow()
		q, err := c.next()
		if err != nil {
			c.slow() // the client begins anew, on another connection
			return err
		}
		c.server.metrics.received(q.api) // before its client can have the answer
		switch {
		case q.api.key == produceKey:
			q.produce()
		case c.line.Join(&q.place):
			c.line.Answer(&q.place) // its turn may come
		default:
			q.abandon()
			return nil
		}
	}
	return nil
}

// slow holds the connection up where something was refused there, and its client was refused too often of late.
func (c *connection) slow() { c.server.node.SlowHolder(c.ctx, c.holder.Load()) }

// next receives one request and decodes it.
func (c *connection) next() (*call, error) {
	size, err := c.size()
	if err != nil {
		return nil, err
	}
	header, err := c.in.Peek(4)
	if err != nil {
		return nil, err
	}
	q := &call{connection: c, key: int16(binary.BigEndian.Uint16(header)), version: int16(binary.BigEndian.Uint16(header[2:]))}
	q.place.Value = q
	if err := admits(c, q.key, size); err != nil {
		return nil, err
	}
	if err := q.admit(size); err != nil {
		return nil, err
	}
	if err := q.receive(size); err != nil {
		q.abandon()
		return nil, err
	}
	if err := q.decode(); err != nil {
		q.abandon()
		return nil, err
	}
	if q.clientID != nil && *q.clientID != c.client {
		c.client = *q.clientID
	}
	return q, nil
}

// size reads the length of the next request.
func (c *connection) size() (int, error) {
	prefix, err := c.in.Peek(4)
	if err != nil {
		return 0, err
	}
	if err := c.refuseTLS(prefix); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	_, _ = c.in.Discard(len(prefix))
	const headerMin = 8 // key, version and correlation id
	if size < headerMin || size > MaxProduceBytes {
		return 0, fmt.Errorf("a request of %d bytes; %d to %d are taken", size, headerMin, MaxProduceBytes)
	}
	return size, nil
}

// receiveFrame receives a request of so many bytes into memory that may have room for the first of them only: more is
// there when these have come. It ends the connection of a client that is too slow: slower
// than slowest after some time, or sooner where others wait to send something large.
func (c *connection) receiveFrame(frame []byte, size int) ([]byte, error) {
	if c.in.Buffered() < size {
		defer c.deadline(time.Time{})
	}
	begun := time.Now()
	for got := 0; ; {
		if c.in.Buffered() < size-got {
			if err := c.deadline(time.Now().Add(receiveLook)); err != nil {
				return frame, err
			}
		}
		n, err := io.ReadFull(c.in, frame[got:])
		switch got += n; {
		case err == nil && got == size:
			return frame, nil
		case err == nil:
			frame = append(make([]byte, 0, min(2*got, size)), frame...)
			frame = frame[:cap(frame)]
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.server.stopping.Err() != nil:
			return frame, err
		}
		slow := time.Since(begun) - time.Duration(got>>10)*time.Second/(slowest>>10)
		if slow > receiveTime || slow > receiveLook && c.server.options.Memory.Arriving.Waiting() {
			return frame, fmt.Errorf("of a request of %d bytes %d have come in %v: %w", size, got, time.Since(begun), err)
		}
	}
}

// deadline sets when receiving ends, but for a server that stops: it wants no
// more at all.
func (c *connection) deadline(t time.Time) error {
	err := c.conn.SetReadDeadline(t)
	if c.server.stopping.Err() != nil {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
	return err
}

// answer sends the answers in order, until there are no more. What is ready
// leaves before anything that may wait.
func (c *connection) answer() error {
	for {
		q, ok := c.line.Next()
		if !ok {
			return nil
		}
		var err error
		if q.produced == nil {
			err = c.flush()
		}
		if err == nil {
			err = q.answer()
		}
		q.release()
		if c.login.failed && err == nil {
			err = cmp.Or(c.flush(), errLoginFailed)
		}
		if err == nil && (len(c.out) >= gatheredAnswers || !c.line.Ready()) {
			err = c.flush()
		}
		if err != nil {
			return err
		}
	}
}

// tryAnswer sends the answer to an append if that needs no waiting. What it leaves in out
// goes with the next, or by flush.
func (c *connection) tryAnswer(q *call) bool {
	if q.produced == nil {
		return false
	}
	q.answerProduce()
	if len(c.out) < gatheredAnswers && c.line.Ready() {
		return true
	}
	n, err := c.try(c.out)
	if n < len(c.out) || err != nil {
		c.out = append(c.out[:0], c.out[n:]...)
		return false
	}
	c.emptied(c.out)
	return true
}

// respond puts an answer of one piece behind those that are not sent yet.
func (c *connection) respond(q *call, r kmsg.Response) {
	begin := len(c.out)
	c.out = r.AppendTo(q.beginResponse(c.out, r.IsFlexible()))
	binary.BigEndian.PutUint32(c.out[begin:], uint32(len(c.out)-begin-4))
}

// flush sends the answers that are not sent yet.
func (c *connection) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	err := c.write(c.out)
	c.emptied(c.out)
	return err
}

// emptied keeps the memory of what was sent for the next answers, unless it is
// much more than they usually need.
func (c *connection) emptied(sent []byte) {
	if c.out = sent[:0]; cap(sent) > keptBuffer {
		c.out = nil
	}
}
