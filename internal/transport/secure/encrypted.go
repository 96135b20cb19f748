package secure

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// acceptAgain is the wait after a failed accept, such as for want of file descriptors.
const acceptAgain = 20 * time.Millisecond

// logEvery is the least time between two lines about refused handshakes: a flood of
// connections must not fill the disk.
const logEvery = 10 * time.Second

// encryptedListener hands out connections whose handshake is done. They are made side
// by side: no client waits for another one's.
type encryptedListener struct {
	*countingListener
	begun   handshakes
	ready   chan net.Conn
	ended   chan struct{} // closed when nothing more is accepted
	failure error         // why; set before ended is closed
	closing context.Context
	close   context.CancelFunc
	tasks   sync.WaitGroup
	logging rate.Sometimes
}

func newEncryptedListener(of *countingListener) *encryptedListener {
	l := &encryptedListener{countingListener: of, ready: make(chan net.Conn), ended: make(chan struct{})}
	l.logging.Interval = logEvery
	l.begun.ofEach = map[netip.Prefix]int{}
	l.closing, l.close = context.WithCancel(context.Background())
	l.tasks.Go(l.accept)
	return l
}

// Accept returns a connection, which is a *tls.Conn if it is encrypted.
func (l *encryptedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ended:
		return nil, l.failure
	}
}

// Close also ends the handshakes that are under way.
func (l *encryptedListener) Close() error {
	err := l.Listener.Close()
	l.close()
	l.begun.close()
	l.tasks.Wait()
	return err
}

func (l *encryptedListener) accept() {
	defer close(l.ended)
	for {
		socket, err := l.countingListener.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			l.receive(socket)
		case errors.As(err, &temporary) && temporary.Temporary():
			l.gate.logger.Warn("cannot take a connection; trying again", "port", l.port.Name, "error", err)
			select {
			case <-time.After(acceptAgain):
			case <-l.closing.Done():
			}
		default:
			l.failure = err
			return
		}
	}
}

// receive begins the handshake of a connection.
func (l *encryptedListener) receive(socket net.Conn) {
	c := &conn{Conn: socket, handshaking: true, left: handshakeBytes, logins: &l.gate.logins}
	from := wherever(socket.RemoteAddr())
	wait, taken, ok := l.gate.failing.delay(from, time.Now())
	var place *list.Element
	if ok {
		place = l.begun.enter(c, prefixOf(socket.RemoteAddr()))
	}
	if place == nil {
		l.gate.failing.ended(from, taken, false, time.Now())
		l.gate.metrics.refused.WithLabelValues(l.port.Name, tooManyHandshakes).Inc()
		_ = socket.Close()
		return
	}
	if wait > 0 {
		l.begun.turn(place, forPace)
	}
	l.tasks.Go(func() {
		defer l.begun.leave(place)
		if wait > 0 {
			l.pause(wait)
			l.begun.turn(place, forClient)
		}
		done, err := l.shakeHands(c, place)
		l.gate.failing.ended(from, taken, clientFailed(err, c.heard && !c.held), time.Now())
		if err != nil {
			l.logFailure(socket, err)
			farewell(c)
			return
		}
		l.begun.turn(place, forNode)
		select {
		case l.ready <- done:
		case <-l.closing.Done():
			_ = done.Close()
		}
	})
}

// pause waits so long, or until the port closes.
func (l *encryptedListener) pause(wait time.Duration) {
	ctx, cancel := context.WithTimeout(l.closing, wait)
	defer cancel()
	<-ctx.Done()
}

// shakeHands returns the connection to talk over.
func (l *encryptedListener) shakeHands(c *conn, place *list.Element) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.closing, l.gate.o.HandshakeTime)
	defer cancel()
	if l.gate.o.Plain {
		plain, err := plainOf(c, l.gate.o.HandshakeTime)
		if plain != nil || err != nil {
			if err == nil {
				l.gate.metrics.accepted.WithLabelValues(l.port.Name, "no").Inc()
			}
			return plain, err
		}
	}
	encrypted := tls.Server(c, l.gate.o.Credentials.server(l.port, l.gate.o.Otherwise, func() error {
		l.begun.turn(place, forNode)
		defer l.begun.turn(place, forClient)
		began := time.Now()
		if err := l.gate.begin.Wait(ctx); err != nil {
			return fmt.Errorf("%w: %w", errNoTurn, err)
		}
		c.held = time.Since(began) > failingWait
		return nil
	}))
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	c.handshaking = false
	l.gate.metrics.accepted.WithLabelValues(l.port.Name, "yes").Inc()
	return encrypted, nil
}

// farewell closes a connection so that its client gets the alert with the reason: unread data of
// the client would otherwise make the system reset the connection.
func farewell(c *conn) {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(farewellTime)) == nil {
		_, _ = io.Copy(io.Discard, c)
	}
	_ = c.Close()
}

// tlsHandshake is the first byte of a connection that is to be encrypted. No protocol
// of ours begins with it, unless a Kafka client's first request had some 370 MB.
const tlsHandshake = 0x16

// plainOf returns the connection if it is not to be encrypted, else nil. The client has so long to send a byte.
func plainOf(c *conn, within time.Duration) (net.Conn, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	var first [1]byte
	if _, err := c.Read(first[:]); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if first[0] == tlsHandshake {
		c.head = first[:]
		return nil, nil
	}
	switch socket := c.Conn.(type) {
	case *counted:
		socket.head = first[:]
		return socket, nil
	case *net.TCPConn:
		return &counted{TCPConn: socket, leave: func() {}, head: first[:], logins: c.logins}, nil
	}
	c.head, c.handshaking = first[:], false
	return c, nil
}

// logFailure counts a handshake that failed, and logs it where a client did something wrong,
// once in logEvery.
func (l *encryptedListener) logFailure(socket net.Conn, err error) {
	if l.closing.Err() != nil {
		return
	}
	l.gate.metrics.refused.WithLabelValues(l.port.Name, handshakeFailed).Inc()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return // it went, or was silent
	}
	l.logging.Do(func() {
		l.gate.logger.Info("a connection was refused in its handshake, perhaps not the only one", "port", l.port.Name, "client", socket.RemoteAddr().String(), "reason", err)
	})
}
