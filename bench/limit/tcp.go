package limit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"strandline.dev/bench/process"
)

// The first byte on a TCP connection to the peer says what it is for.
const (
	tcpEcho   byte = 'e' // requests of echoUp bytes are answered with echoDown
	tcpStream byte = 's' // the peer sends for as long as it can
)

const (
	echoUp   = 2 << 10 // an append of one record
	echoDown = 16      // its answer
)

// TCPEcho counts round trips of 2 KiB up and 16 bytes down, one outstanding on
// each connection.
func (p *Peer) TCPEcho(ctx context.Context, connections int, s Span) (Rate, error) {
	all, err := p.dialTCP(ctx, connections, tcpEcho)
	if err != nil {
		return Rate{}, err
	}
	defer closeAll(all)
	workers := make([]worker, len(all))
	for i, c := range all {
		request, answer := make([]byte, echoUp), make([]byte, echoDown)
		workers[i] = func() (int64, error) {
			if _, err := c.Write(request); err != nil {
				return 0, err
			}
			_, err := io.ReadFull(c, answer)
			return 1, err
		}
	}
	s.Processor = process.Usage([]string{p.tcp})
	return s.run(ctx, workers, func() { closeAll(all) })
}

// TCPStream measures how fast the peer's bytes come in, over so many
// connections together.
func (p *Peer) TCPStream(ctx context.Context, connections int, s Span) (Throughput, error) {
	all, err := p.dialTCP(ctx, connections, tcpStream)
	if err != nil {
		return Throughput{}, err
	}
	defer closeAll(all)
	workers := make([]worker, len(all))
	for i, c := range all {
		chunk := make([]byte, 1<<20)
		workers[i] = func() (int64, error) {
			n, err := c.Read(chunk)
			return int64(n), err
		}
	}
	rate, err := s.run(ctx, workers, func() { closeAll(all) })
	return Throughput{Bytes: rate.Count, Elapsed: rate.Elapsed}, err
}

func (p *Peer) dialTCP(ctx context.Context, connections int, purpose byte) ([]net.Conn, error) {
	var all []net.Conn
	for range connections {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.tcp)
		if err == nil {
			all = append(all, c)
			_, err = c.Write([]byte{purpose})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect by TCP: %w", err), closeAll(all))
		}
	}
	return all, nil
}

// serveTCP answers connections until the listener is closed. The connections
// end with the process.
func serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var purpose [1]byte
			if _, err := io.ReadFull(c, purpose[:]); err != nil {
				return
			}
			switch purpose[0] {
			case tcpEcho:
				echoTCP(c)
			case tcpStream:
				streamTCP(c)
			}
		}()
	}
}

func echoTCP(c net.Conn) {
	request, answer := make([]byte, echoUp), make([]byte, echoDown)
	for {
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

func streamTCP(c net.Conn) {
	chunk := make([]byte, 1<<20)
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}
