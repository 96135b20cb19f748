// Package gather answers a question about Kafka: could a proxy that gathers the
// appends of many connections in front of a leader give what group commit
// gives? Proxy is such a proxy. It speaks enough of Kafka's protocol for
// producers; whatever waits for a partition while a request is under way goes
// into the next one, as one batch, so that the broker syncs once for all of it.
//
// It is written to be measured (`strandline bench gather`), not to be depended
// on: it knows one broker, and idempotent producers are refused because a batch
// of many producers has no sequence of its own.
package gather

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Proxy stands between producers and one Kafka broker.
type Proxy struct {
	listener net.Listener
	host     string
	port     int32
	client   *kgo.Client
	broker   *kgo.Broker
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	work     sync.WaitGroup // of connections and lanes

	mu          sync.Mutex
	connections map[net.Conn]struct{} // nil: closed
	lanes       map[partition]*lane
}

type partition struct {
	topic string
	index int32
}

// Listen begins to serve at an address, in front of the broker at another.
// Close it.
func Listen(address, broker string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	host, service, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	port, err := strconv.ParseInt(service, 10, 32)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	// Produce version 11 is the last that names topics instead of their ids.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(keyProduce, newestProduce)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.MaxVersions(versions))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a client of %s: %w", broker, err), listener.Close())
	}
	p := &Proxy{
		listener: listener, host: host, port: int32(port), client: client, broker: client.SeedBrokers()[0],
		connections: map[net.Conn]struct{}{}, lanes: map[partition]*lane{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends all connections. Appends that are under way may be in the log.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.cancel()
	p.mu.Lock()
	connections := p.connections
	p.connections = nil
	p.mu.Unlock()
	for c := range connections {
		_ = c.Close() // whatever it had to say is not waited for
	}
	p.client.Close()
	p.work.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		closed := p.connections == nil
		if !closed {
			p.connections[conn] = struct{}{}
			p.work.Go(func() { p.serve(conn) })
		}
		p.mu.Unlock()
		if closed {
			_ = conn.Close()
			return
		}
	}
}

func (p *Proxy) serve(conn net.Conn) {
	c := &connection{proxy: p, conn: conn, answers: make(chan *call, mostUnanswered)}
	p.work.Go(c.write)
	c.read()
	close(c.answers)
	p.mu.Lock()
	delete(p.connections, conn)
	p.mu.Unlock()
}

// lane is the lane of a partition, made if it is the first append to it.
func (p *Proxy) lane(at partition) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[at]
	if l == nil {
		l = &lane{proxy: p, at: at}
		p.lanes[at] = l
	}
	return l
}
