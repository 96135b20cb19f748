package client

import (
	"context"
	"net"
	"time"
)

// Option changes how a Client connects.
type Option func(*clientOptions)

type clientOptions struct {
	insecure  bool
	retryTime time.Duration
	dial      dialFunc // nil: directly
	onTrouble func(log string, err error)
}

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

func defaultClientOptions() clientOptions {
	return clientOptions{retryTime: 5 * time.Second, onTrouble: func(string, error) {}}
}

// WithInsecure allows connections without TLS to addresses other than loopback.
// Everything on them can be read and changed on the way. Default off.
func WithInsecure() Option { return func(o *clientOptions) { o.insecure = true } }

// WithRetryTime sets how long calls of Admin, and the opening of a Producer or
// Reader, go on looking for a node that can answer. Default 5 s; 0 tries every
// address once.
func WithRetryTime(d time.Duration) Option {
	return func(o *clientOptions) { o.retryTime = d }
}

// WithDialer makes every connection to a node with dial: to go through a tunnel, or
// to watch or to slow down what is sent. The address is one of those given to Dial,
// or one that a node gave for itself or another node. Default a TCP connection.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(o *clientOptions) { o.dial = dial }
}

// WithTroubleHandler calls f with a log and a reason, an *Error, whenever a Producer or
// Reader of it cannot be opened or continue and tries again, and with nil when it
// continues. Calls come from any goroutine, and f must return soon. Default none.
func WithTroubleHandler(f func(log string, err error)) Option {
	return func(o *clientOptions) { o.onTrouble = f }
}
