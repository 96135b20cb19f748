// Package server runs a whole node: it opens the node, serves gRPC, the nodes' own
// traffic, Kafka and HTTP on the listeners it is given, and stops all of them in the
// order that loses nothing. Below it is one folder for each protocol.
//
// It changes nothing of the process: the runtime's settings, signals and the default
// logger belong to the program.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"strandline.dev/internal/node"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/server/audit"
	grpcserver "strandline.dev/internal/server/grpc"
	"strandline.dev/internal/server/guard"
	httpserver "strandline.dev/internal/server/http"
	kafkaserver "strandline.dev/internal/server/kafka"
	logspecserver "strandline.dev/internal/server/logspec"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport"
	"strandline.dev/internal/transport/lean"
	"strandline.dev/internal/transport/peer"
	"strandline.dev/internal/transport/secure"
)

const (
	// CloseTime is how long Close lets a node finish what is in flight. With what
	// comes after it, Close stays under the 10 s that `strandline serve` promises.
	CloseTime = 9 * time.Second
	// handoverTime is the part of it in which other nodes may take over.
	handoverTime = 2 * time.Second
	// decidingTime is how long changes of the catalog may continue meanwhile.
	decidingTime = 5 * time.Second
)

// Options of a Server. Start takes over the listeners.
type Options struct {
	// Node is for the node itself. An empty GRPCAddress becomes that of the
	// listener, an empty KafkaAddress the one that AdvertisedKafka finds.
	Node settings.Options
	// GRPC takes the connections of clients and of other nodes. Required.
	GRPC net.Listener
	// HTTP serves metrics, health, profiles and strandline.v1 as JSON; Kafka the Kafka protocol.
	// nil: no such port.
	HTTP, Kafka net.Listener
	// HTTPOrigins are those of pages in browsers that may call the HTTP port besides its own.
	HTTPOrigins []string
	// KafkaAutoCreate creates topics that Kafka clients ask for.
	KafkaAutoCreate bool
	// KafkaAutoPartitions is how many partitions those get, and those created without a number; 0: one.
	KafkaAutoPartitions int
	// LogspecLog is the log that the logspec service shows; empty: no such service.
	LogspecLog string
	// Profiles serves Go's profiles on the HTTP port.
	Profiles bool
	// Credentials are those of the node; nil: nothing is encrypted. Then clients and other
	// nodes have to show theirs, as far as it says.
	Credentials *secure.Credentials
	// Insecure takes connections that are not encrypted, too.
	Insecure bool
	// PerAddress is how many connections of a port one address may hold, but for those
	// of this machine; 0: any number.
	PerAddress int
	// AuditLog is the file for the audit log; empty: there is none.
	AuditLog string
	// OpenFiles is how many files the process may hold open; 0: not known. The ports
	// take as many connections as leave enough of them to the logs.
	OpenFiles uint64
	// Whence returns the address that a connection counts for; nil: its remote address. Tests give
	// connections of this machine, which has no limit, other addresses.
	Whence func(net.Conn) net.Addr

	refusedRate int           // guard.Options.RefusedRate
	quotaWait   time.Duration // guard.Options.QuotaWait
	handshake   time.Duration // secure.GateOptions.HandshakeTime
}

// CloseListeners closes the listeners of options that are not started.
func (o Options) CloseListeners() {
	for _, l := range []net.Listener{o.GRPC, o.HTTP, o.Kafka} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// Server is a node that runs, with its ports.
type Server struct {
	node   *node.Node
	guard  atomic.Pointer[guard.Guard] // nil until the node is open
	audit  *audit.Log                  // nil: none
	logger *slog.Logger
	at     Options // the listeners
	peers  net.Listener
	// stops are what ends the ports, in the order in which Close calls it.
	stops   []func(context.Context)
	serving sync.WaitGroup
	failed  chan error
}

// Start opens a node and serves it. A failure closes what was opened.
func Start(o Options) (*Server, error) {
	s := &Server{logger: cmp.Or(o.Node.Logger, slog.Default()), at: o}
	if err := s.start(o); err != nil {
		s.at.CloseListeners()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(o Options) (err error) {
	o.Node.Logger = s.logger
	gate := o.close(s.logger, s.enforced)
	s.at = o
	if o.Node.GRPCAddress == "" {
		o.Node.GRPCAddress = o.GRPC.Addr().String()
	}
	o.Node.HTTPAddress = addressOf(o.HTTP)
	if o.Kafka != nil && o.Node.KafkaAddress == "" {
		var hidden error
		if o.Node.KafkaAddress, hidden = advertisedKafka(o.Kafka.Addr().String(), o.Node.GRPCAddress); hidden != nil {
			s.logger.Warn("other nodes send no Kafka client to this one", "reason", hidden)
		}
	}
	if s.node, err = node.Open(o.Node); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.node.Close(context.Background()))
		}
	}()
	var serve []func() error
	var collectors []prometheus.Collector
	if o.AuditLog != "" {
		if s.audit, err = audit.Open(o.AuditLog, s.logger); err != nil {
			return err
		}
		collectors = append(collectors, s.audit.Metrics()...)
	}
	guarded := guard.New(s.node, guard.Options{
		Audit: s.audit, Careful: o.Credentials.AsksClients() && !o.Insecure, Administrator: o.Node.Administrator, RefusedRate: o.refusedRate, QuotaWait: o.quotaWait, Logger: s.logger,
	})
	s.guard.Store(guarded)
	guarded.Start()
	defer func() {
		if err != nil {
			s.endGuard()
		}
	}()

	// Without a port it coordinates groups all the same: another node's clients may have committed offsets.
	kafka := kafkaserver.New(guarded, kafkaserver.Options{
		MaxConnections: kafkaConnections(o.OpenFiles), Advertise: o.Node.KafkaAddress,
		Memory: s.node.Memory(), AutoCreate: o.KafkaAutoCreate, AutoPartitions: o.KafkaAutoPartitions, Logger: s.logger,
	})
	s.stops = append(s.stops, kafka.Stop)
	if o.Kafka != nil {
		serve = append(serve, func() error { return kafka.Serve(o.Kafka) })
		collectors = append(collectors, kafka.Metrics()...)
	}
	clients := rpc.New(rpc.Options{
		MaxConnections: grpcConnections(o.OpenFiles, o.Kafka != nil),
		Appends:        s.node.Memory().Appends, Inflow: s.node.Memory().Inflow, Answers: s.node.Memory().Answers, Inflating: rpc.NewInflating(s.node.Memory()), Logger: s.logger, Callers: guarded,
	})
	collectors = append(collectors, guarded.Metrics()...)
	grpcserver.Register(clients, guarded)
	grpcserver.RegisterGroups(clients, kafka.Groups())
	if o.LogspecLog != "" {
		logspecserver.Register(clients, guarded, o.LogspecLog)
	}
	s.stops = append(s.stops, clients.Stop)
	if o.HTTP != nil {
		operators, err := httpserver.New(s.node, httpserver.Options{
			Profiles: o.Profiles, Logger: s.logger, Collectors: slices.Concat(clients.Metrics(), gate.Metrics(), collectors),
			Identified: o.Credentials.AsksClients() && !o.Insecure, Callers: guarded,
			Calls: clients.Local(), Texts: s.node.Memory().Texts, SentTexts: s.node.Memory().SentTexts, Origins: o.HTTPOrigins,
		})
		if err != nil {
			return err
		}
		serve = append(serve, func() error { return operators.Serve(o.HTTP) })
		s.stops = append(s.stops, operators.Stop)
	}

	// Clients and other nodes come in by one port.
	sorted, others := transport.Split(o.GRPC, peer.Magic, lean.Magic)
	peers, streams := sorted[0], sorted[1]
	s.peers = peers
	serve = append(serve, func() error { return clients.Serve(others) }, func() error { return clients.ServeStreams(streams) },
		func() error { return s.node.ServePeers(peers) })
	s.failed = make(chan error, len(serve))
	for _, port := range serve {
		s.serving.Go(func() {
			// A port that was closed before its server came to look is no failure.
			if err := port(); err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
				s.failed <- err
			}
		})
	}
	s.logger.Info("serving", "node", s.Name(), "grpc", s.GRPC(), "kafka", cmp.Or(s.Kafka(), "none"), "http", cmp.Or(s.HTTP(), "none"), "data", o.Node.DataDir)
	return nil
}

// enforced reports whether rights are enforced in the cluster, as far as is known.
func (s *Server) enforced() bool {
	g := s.guard.Load()
	return g != nil && g.Enforced()
}

// ReopenAuditLog continues the audit log in a new file, after the old one was renamed.
func (s *Server) ReopenAuditLog() error {
	if s.audit == nil {
		return nil
	}
	return s.audit.Reopen()
}

// endGuard is called once no port calls the guard any more.
func (s *Server) endGuard() {
	s.guard.Load().Stop()
	if s.audit != nil {
		s.audit.Close()
	}
}

// Failed receives the error of each port that cannot continue.
func (s *Server) Failed() <-chan error { return s.failed }

// Name is what the cluster calls the node, or will.
func (s *Server) Name() string { return s.node.Name() }

// Waiting reports whether the node is in no cluster yet.
func (s *Server) Waiting() bool { return s.node.ClusterID() == "" }

// GRPC, HTTP and Kafka are the addresses of the listeners; empty: none.
func (s *Server) GRPC() string  { return addressOf(s.at.GRPC) }
func (s *Server) HTTP() string  { return addressOf(s.at.HTTP) }
func (s *Server) Kafka() string { return addressOf(s.at.Kafka) }

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Close hands leadership over, answers what is in flight, closes the ports and then
// the node, in CloseTime and a moment. It returns the first error, that of a port
// included, unless Failed gave it out. Nothing of the server is left when it returns
// but what a disk holds that hangs. It is called once.
func (s *Server) Close() error {
	s.logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), CloseTime)
	defer cancel()
	// Others lead before this node stops to answer; it still talks to them until its
	// logs are closed.
	handover, cancelHandover := context.WithTimeout(ctx, handoverTime)
	s.node.HandOver(handover)
	cancelHandover()
	s.stopPorts(ctx)
	return s.end(ctx)
}

// stopPorts answers what is in flight until ctx ends, and closes the ports for clients.
func (s *Server) stopPorts(ctx context.Context) {
	// A client that creates or deletes a log, or opens a session, while the catalog has no
	// majority would wait for one longer than that.
	defer time.AfterFunc(decidingTime, s.node.StopDeciding).Stop()
	for _, stop := range s.stops {
		stop(ctx)
	}
	s.endGuard()
}

// end closes the node, whose ports are stopped.
func (s *Server) end(ctx context.Context) error {
	err := s.node.Close(ctx)
	_ = s.peers.Close()
	s.serving.Wait()
	s.at.CloseListeners()
	close(s.failed)
	for failure := range s.failed {
		err = cmp.Or(err, failure)
	}
	s.logger.Info("stopped")
	return err
}

// advertisedKafka returns the address at which other nodes send clients to the Kafka port. listens
// is the address of that port and node the address of the node. A port on all interfaces is reached
// at the host of the node. A port that listens only for this machine is not announced if the node
// is reached from other machines, because their clients would look for it on their own machine; the
// address is then empty, and the error says what to do.
func advertisedKafka(listens, node string) (string, error) {
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return "", err
	}
	nodeHost, _, err := net.SplitHostPort(node)
	switch {
	case err != nil:
		return "", err
	case transport.IsLoopback(host) && !transport.IsLoopback(nodeHost):
		return "", fmt.Errorf("the Kafka port listens at %s, which only this machine can reach, but other machines can reach the node at %s: "+
			"give --kafka an address that other machines can reach, or set --kafka-advertise to one, or disable the port with --kafka none", listens, node)
	case !transport.IsWildcard(host):
		return listens, nil
	case transport.IsWildcard(nodeHost):
		return "", nil // alone, and known to no other node
	}
	return net.JoinHostPort(nodeHost, port), nil
}

// connectionsLeast is the minimum of connections on a port. Half of the files that the process may
// hold open are for connections; the rest is for logs, each with about five, and for readers. Many
// clients must not use up the files of logs.
const connectionsLeast = 16

// grpcConnections and kafkaConnections return how many connections a port accepts if the process
// may hold the given number of files open; 0: not known.
func grpcConnections(files uint64, withKafka bool) int {
	return connectionShare(files, withKafka, rpc.DefaultMaxConnections)
}

func kafkaConnections(files uint64) int {
	return connectionShare(files, true, kafkaserver.DefaultMaxConnections)
}

func connectionShare(files uint64, withKafka bool, most int) int {
	if files == 0 {
		return most
	}
	share := files / 2
	if withKafka {
		share = files / 4
	}
	return int(max(connectionsLeast, min(share, uint64(most))))
}

// close puts a gate in front of all listeners and of the connections to other nodes. otherwise
// reports whether clients can authenticate without a certificate.
func (o *Options) close(logger *slog.Logger, otherwise func() bool) *secure.Gate {
	gate := secure.NewGate(secure.GateOptions{
		Credentials: o.Credentials, Plain: o.Insecure, Otherwise: otherwise, PerAddress: o.PerAddress, Whence: o.Whence, HandshakeTime: o.handshake, Logger: logger,
	})
	o.GRPC = gate.Listen(o.GRPC, secure.Port{Name: "grpc", Protocols: []string{"h2"}})
	if o.Kafka != nil {
		o.Kafka = gate.Listen(o.Kafka, secure.Port{Name: "kafka"})
	}
	if o.HTTP != nil {
		// Probes of the system that runs the node have no certificate.
		o.HTTP = gate.Listen(o.HTTP, secure.Port{Name: "http", Protocols: []string{"http/1.1"}, AnonymousToo: true,
			Most: httpserver.MaxConnections, MostOfEach: httpserver.MaxConnectionsOfAddress, Yields: true})
	}
	o.Node.Dial, o.Node.Prove = gate.DialNode(o.Node.Dial), gate.Prove
	return gate
}
