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
	"strandline.dev/internal/server/kafka/fetchsession"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/secure"
)

// connection is the connection of one client. One goroutine receives its requests and passes
// appends to their logs immediately. Another goroutine sends all answers in the order of the
// requests, and executes each request other than an append when its turn comes. So many appends are
// in flight, the log decides them in order, and a connection holds the memory of one other answer
// at a time.
//
// If the client disconnects, appends that were passed to a log still happen. A request that was not
// completely received by then is never appended.
type connection struct {
	sending
	server *Server
	line   *rpc.Line[*call]
	in     *bufio.Reader
	// out holds answers that have not been sent. Answers to appends that are ready at the same time
	// are sent together.
	out []byte
	// try sends the bytes that the client accepts without waiting; nil: not possible.
	try lean.TryWrite
	// produced is the memory of the answer to a Produce.
	produced kmsg.ProduceResponse
	// fetchSession is the session of the client's fetches; nil: it has none.
	fetchSession *fetchsession.Session
	// ctx ends when the connection does, or when the server stops.
	ctx    context.Context
	cancel context.CancelFunc
	client string // as it calls itself
	// holder is the client, with its principal if it has authenticated.
	holder atomic.Pointer[guard.Holder]
	login  login
	// from is where the client connects from: see holderName.
	from string
	// entered ends its place among unauthenticated connections; nil: it has none.
	entered atomic.Pointer[func()]
	// prove records that the client has authenticated, see guard.Guard.Connected.
	prove func(context.Context) error
	// unproved is the number of bytes received before that, if the client must authenticate.
	unproved int
	// muted is set while no request is received because of a quota.
	muted atomic.Pointer[mute]
	// unserved: it was logged that the client sends requests that are not supported.
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
			c.line.Close() // received requests are still answered
			return
		}
		c.logEnd(err)
		c.cancel()
		c.line.Break()
	}()
	if err := c.answer(); err != nil {
		c.logEnd(err)
	}
	c.endFetchSession()
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

// logUnserved logs an unsupported request, the first of a connection.
func (c *connection) logUnserved(key, version int16) {
	if !c.unserved {
		c.unserved = true
		c.log("a Kafka client asks for what is not served", "client", c.conn.RemoteAddr().String(), "id", c.client,
			"request", kmsg.NameForKey(key), "version", version)
	}
}

// log logs an error of a client, at most one line in logUnprovedEvery. Clients that must
// authenticate and have not are limited separately, so that they do not hide the errors of others.
func (c *connection) log(message string, args ...any) {
	every := &c.server.provedLog
	if c.mustProve() {
		every = &c.server.unprovedLog
	}
	every.Do(func() { c.server.logger.Info(message+", perhaps not the only one", args...) })
}

// finish accepts no more requests.
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

// receive receives requests until the connection fails or the line is closed.
func (c *connection) receive() error {
	for c.line.AwaitRoom() {
		c.slow()
		if err := c.unmuted(); err != nil {
			return nil // the connection ends
		}
		q, err := c.next()
		if err != nil {
			c.slow() // the client begins anew, on another connection
			return err
		}
		c.server.metrics.received(q.api) // before its client can have the answer
		q.owes(c.server.node.ChargeRequests(c.caller(), 1))
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
	if c.login.bare.Load() {
		return c.nextToken(size)
	}
	if size < headerMin {
		return nil, errSize(size)
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
	if size < 0 || size > MaxProduceBytes {
		return 0, errSize(size)
	}
	return size, nil
}

const headerMin = 8 // key, version and correlation id

func errSize(size int) error {
	return fmt.Errorf("a request must have %[2]d to %[3]d bytes, not %[1]d", size, headerMin, MaxProduceBytes)
}

// receiveFrame receives a request of the given size. frame may have room for only the first bytes;
// it grows as they arrive. receiveFrame ends the connection of a slow client: one slower than
// slowest for receiveTime, or for receiveLook while others wait to send a large request.
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
			return frame, fmt.Errorf("received %d of the %d bytes of a request in %v: %w", got, size, time.Since(begun), err)
		}
	}
}

// deadline sets the deadline for receiving, unless the server stops: then nothing more is received.
func (c *connection) deadline(t time.Time) error {
	err := c.conn.SetReadDeadline(t)
	if c.server.stopping.Err() != nil {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
	return err
}

// answer sends the answers in order until there are none left. It sends all ready answers before it
// does anything that may wait.
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

// tryAnswer sends the answer to an append if it can do so without waiting. Bytes that it leaves in
// out are sent with the next answer, or by flush.
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

// respond appends an answer in one piece to the unsent ones.
func (c *connection) respond(q *call, r kmsg.Response) {
	begin := len(c.out)
	c.out = r.AppendTo(q.beginResponse(c.out, r.IsFlexible()))
	binary.BigEndian.PutUint32(c.out[begin:], uint32(len(c.out)-begin-4))
}

// flush sends the unsent answers.
func (c *connection) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	err := c.write(c.out)
	c.emptied(c.out)
	return err
}

// emptied reuses the memory of sent answers for the next ones, unless it is much larger than usual.
func (c *connection) emptied(sent []byte) {
	if c.out = sent[:0]; cap(sent) > keptBuffer {
		c.out = nil
	}
}
