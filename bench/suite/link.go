package suite

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"strandline.dev/bench/wire"
	"strandline.dev/test/proxy"
)

// link stands between a client and all its servers: slow, and counting. There
// is a proxy for each address that the client connects to.
type link struct {
	oneWay  time.Duration
	counter *wire.Counter // nil: nothing is counted

	mu      sync.Mutex
	proxies map[string]*proxy.Proxy
}

func newLink(roundTrip time.Duration, counter *wire.Counter) *link {
	return &link{oneWay: roundTrip / 2, counter: counter, proxies: map[string]*proxy.Proxy{}}
}

// dial is a driver.Dial.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p, err := l.to(address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, p.Address())
}

func (l *link) to(address string) (*proxy.Proxy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.proxies[address]; p != nil {
		return p, nil
	}
	p, err := proxy.Listen("127.0.0.1:0", address)
	if err != nil {
		return nil, err
	}
	p.SetDelay(l.oneWay)
	if l.counter != nil {
		// Each proxy numbers its own connections from 1.
		const perProxy = 1 << 32
		base := uint64(len(l.proxies)) * perProxy
		p.Watch(func(conn uint64, d proxy.Direction, b []byte) {
			if d == proxy.Up {
				l.counter.Up(base+conn, b)
			} else {
				l.counter.Down(base+conn, b)
			}
		})
	}
	l.proxies[address] = p
	return p, nil
}

func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, p := range l.proxies {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
