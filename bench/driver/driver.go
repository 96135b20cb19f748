// Package driver reaches systems under test for the workloads: Strandline by
// its Go client, and whatever speaks the Kafka protocol by franz-go, by Sarama
// or by fetch requests without a client library around them.
package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"strandline.dev/bench/workload"
	"strandline.dev/client"
)

// Address names a system under test and the library that talks to it:
//
//	strandline://HOST:PORT[,HOST:PORT...][?client=go|grpc|python|...]
//	kafka://HOST:PORT[,HOST:PORT...][?client=franz|sarama|fetch]
//
// Both take name=... and disk=..., which tables show, and data=..., the directory
// of its files.
type Address struct {
	Scheme string // strandline or kafka
	Nodes  []string
	Client string // the default is go, or franz of the kafka scheme
	// Name is what tables call it, and Disk what they say of its disk; empty:
	// made from the rest, and "as it is".
	Name, Disk string
	// Data is where the system has its files; empty: out of reach, or not given.
	Data string
}

const (
	Strandline = "strandline"
	Kafka      = "kafka"

	// ClientGo is the Go client as it is, and ClientGRPC with its streams over gRPC.
	ClientGo   = "go"
	ClientGRPC = "grpc"
)

// ParseAddress reads an Address.
func ParseAddress(text string) (Address, error) {
	a := Address{}
	// Several ports are no URL to net/url, so only the query is parsed there.
	scheme, rest, _ := strings.Cut(text, "://")
	hosts, options, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(options)
	if err != nil {
		return a, fmt.Errorf("%q: %w", text, err)
	}
	a.Scheme = scheme
	if a.Scheme != Strandline && a.Scheme != Kafka {
		return a, fmt.Errorf("%q must begin with strandline:// or kafka://", text)
	}
	a.Nodes = strings.Split(strings.TrimSuffix(hosts, "/"), ",")
	for _, node := range a.Nodes {
		if _, _, err := net.SplitHostPort(node); err != nil {
			return a, fmt.Errorf("%q: %q is not HOST:PORT", text, node)
		}
	}
	for key := range query {
		if !slices.Contains([]string{"client", "name", "disk", "data"}, key) {
			return a, fmt.Errorf("%q: unknown option %q: use client, name, disk or data", text, key)
		}
	}
	a.Client, a.Name, a.Disk, a.Data = query.Get("client"), query.Get("name"), query.Get("disk"), query.Get("data")
	switch {
	case a.Scheme == Kafka && a.Client == "":
		a.Client = ClientFranz
	case a.Scheme == Strandline && a.Client == "":
		a.Client = ClientGo
	case a.Scheme == Strandline && !slices.Contains(clientNames(), a.Client):
		return a, fmt.Errorf("%q: strandline:// has no client %q: use %s", text, a.Client, strings.Join(clientNames(), ", "))
	}
	return a, nil
}

// Label is what tables call the system.
func (a Address) Label() string {
	if a.Name != "" {
		return a.Name
	}
	return a.Scheme
}

// Dial connects to a node. It is how a benchmark puts a slow link between a
// client and its servers.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what all systems know.
type Options struct {
	Dial Dial // nil: directly
	// Strandline is for its client, beside what is said here.
	Strandline []client.Option
	// TLS encrypts connections to Kafka; nil: they are not.
	TLS *tls.Config
	// Watch is given each connection to Kafka, above its encryption, and returns
	// what is to be used instead; nil: the connection itself.
	Watch func(net.Conn) net.Conn
	// Insecure allows Strandline's nodes beyond this machine.
	Insecure bool
}

// dial connects as the options say, encrypted or not, watched or not.
func (o Options) dial() Dial {
	if o.Watch == nil {
		return o.dialSecure()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := o.dialSecure()(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return o.Watch(conn), nil
	}
}

func (o Options) dialSecure() Dial {
	plain := o.Dial
	if plain == nil {
		plain = new(net.Dialer).DialContext
	}
	if o.TLS == nil {
		return plain
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := o.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secure, nil
	}
}

// Open prepares for a system. Close it.
func Open(a Address, o Options) (workload.System, error) {
	if a.Scheme == Strandline {
		return newStrandline(a, o)
	}
	library, known := libraries[a.Client]
	if !known {
		return nil, fmt.Errorf("unknown client %q: use %s", a.Client, strings.Join(Clients(), ", "))
	}
	return NewKafka(a.Nodes, o, library)
}

// Clients lists the libraries for the Kafka protocol that this program has.
func Clients() []string {
	var names []string
	for name := range libraries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	// The libraries for the Kafka protocol.
	ClientFranz  = "franz"
	ClientSarama = "sarama"
	ClientFetch  = "fetch"
)

// Register adds a library that this module does not have, under the name that
// addresses call it by. It is for the init function of a package that is built
// in: see bench/librdkafka.
func Register(name, description string, l Library) {
	libraries[name], registered[name] = l, description
}

// registered are the descriptions of libraries that were added.
var registered = map[string]string{}

var libraries = map[string]Library{
	ClientFranz:  franz{},
	ClientSarama: saramaLibrary{},
	ClientFetch:  fetchLibrary{},
}
