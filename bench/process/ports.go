package process

import (
	"context"
	"fmt"
	"net"
	"time"
)

// FreePorts finds unused ports of a host, for servers whose ports
// must be known, to them and to others, before they start.
func FreePorts(host string, n int) ([]string, error) {
	var (
		addresses []string
		held      []net.Listener
	)
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, l)
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// AwaitListening returns when somebody takes connections at the address, the
// process has ended, or the context does.
func AwaitListening(ctx context.Context, p *Process, address string) error {
	const pause = 20 * time.Millisecond
	for {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.Ended():
			return p.Why()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to listen on %s: %w", p.name, address, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
