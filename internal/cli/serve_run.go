package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"

	"strandline.dev/internal/node"
	grpcdoor "strandline.dev/internal/server/grpc"
	httpdoor "strandline.dev/internal/server/http"
	logspecdoor "strandline.dev/internal/server/logspec"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/peer"
)

// stopTime is how long a node has to finish what is in flight. With what comes
// after it stays under the 10 s that are promised.
const stopTime = 9 * time.Second

// decidingTime is how long changes of the catalog may go on meanwhile.
const decidingTime = 5 * time.Second

// handoverTime is how long others have to take over.
const handoverTime = 2 * time.Second

// serveSettings is what "serve" was asked to do.
type serveSettings struct {
	data       string
	grpc, http string
	kafka      string
	// kafkaAdvertise is what Kafka's clients are told; empty: kafkaReachedAt.
	kafkaAdvertise string
	// kafkaAutoCreate creates topics that Kafka's clients ask for.
	kafkaAutoCreate bool
	logspecLog      string
	pprof           bool
	spreadLeaders   bool
	minFree         int64
	memory          int64
	scrubRate       int64
	scrubEvery      time.Duration
	// segmentBytes is that of node.Options; 0: its default.
	segmentBytes int64
	syncDelay    time.Duration
	clockSkew    time.Duration
	lostAfter    time.Duration
	logger       *slog.Logger
	membership
}

// ports are what a node listens on.
type ports struct {
	grpc, http net.Listener
	kafka      net.Listener // nil: none
}

func (p ports) close() {
	for _, port := range []net.Listener{p.grpc, p.http, p.kafka} {
		if port != nil {
			_ = port.Close()
		}
	}
}

// served is where a node that runs is found.
type served struct {
	Node string `json:"node"`
	GRPC string `json:"grpc"`
	HTTP string `json:"http"`
	// Kafka is "none" where there is no such port.
	Kafka string `json:"kafka"`
	Data  string `json:"data"`
	// Waiting: it belongs to no cluster yet.
	Waiting bool `json:"waiting"`
}

// serve runs a node until ctx ends or a port fails, and then stops it.
// announce is called once everything listens.
func (s serveSettings) serve(ctx context.Context, announce func(served) error) error {
	// All ports are taken before any data is touched, so that a second server
	// started by mistake does nothing.
	taken, err := s.listen()
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	useMemory(running, s.memory)
	return s.serveOn(ctx, taken, announce)
}

func (s serveSettings) listen() (ports, error) {
	var taken ports
	var err error
	if taken.grpc, err = net.Listen("tcp", s.grpc); err != nil {
		return ports{}, takenPort(err, "--grpc")
	}
	if taken.http, err = net.Listen("tcp", s.http); err != nil {
		taken.close()
		return ports{}, takenPort(err, "--http")
	}
	if taken.kafka, err = listenKafka(s.kafka); err != nil {
		taken.close()
		return ports{}, err
	}
	return taken, nil
}

// serveOn is serve on ports that are open, which it closes. It stops the doors
// first, which answers what is in flight, then the node.
func (s serveSettings) serveOn(ctx context.Context, taken ports, announce func(served) error) error {
	tuneRuntime()
	defer taken.close()
	grpcAddress, httpAddress := taken.grpc.Addr().String(), taken.http.Addr().String()

	options := s.options(grpcAddress)
	if taken.kafka != nil {
		var hidden error
		if options.KafkaAddress, hidden = s.kafkaReachedAt(taken.kafka.Addr().String(), options.GRPCAddress); hidden != nil {
			s.logger.Warn("other nodes send no Kafka client to this one", "reason", hidden)
		}
	}
	n, err := node.Open(options)
	if err != nil {
		return err
	}
	grpcServer := rpc.New(rpc.Options{
		MaxConnections: grpcConnections(openFileLimit(), taken.kafka != nil), Appends: n.Memory().Appends, Inflow: n.Memory().Inflow, Logger: s.logger,
	})
	grpcdoor.Register(grpcServer, grpcdoor.Verbs(n))
	logspecdoor.Register(grpcServer, logspecdoor.Verbs(n), s.logspecLog)
	kafka := s.newKafkaPort(n, taken.kafka, options.KafkaAddress)
	collectors := append(grpcServer.Metrics(), kafka.metrics()...)
	httpServer, err := httpdoor.New(n, httpdoor.Options{Profiles: s.pprof, Logger: s.logger, Collectors: collectors})
	if err != nil {
		return errors.Join(err, n.Close(ctx))
	}

	// Clients and other nodes come in by one port.
	peers, clients := peer.Split(taken.grpc)
	defer peers.Close()
	failed := make(chan error, 4)
	stopped, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { failed <- grpcServer.Serve(clients) }()
	go func() { failed <- n.ServePeers(peers) }()
	go func() { failed <- httpServer.Serve(taken.http) }()
	go func() { failed <- kafka.serve(stopped) }()
	s.logger.Info("serving", "node", n.Name(), "grpc", grpcAddress, "kafka", kafka.address(), "http", httpAddress, "data", s.data)
	err = announce(served{Node: n.Name(), GRPC: grpcAddress, HTTP: httpAddress, Kafka: kafka.address(), Data: s.data, Waiting: n.ClusterID() == ""})
	running := 4
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
			running--
		}
	}

	s.logger.Info("stopping")
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	// Others lead before this node stops to answer; it still talks to them
	// until its logs are closed.
	handover, cancelHandover := context.WithTimeout(deadline, handoverTime)
	n.HandOver(handover)
	cancelHandover()
	stop()
	// Who creates or deletes a log, or opens a session, while the catalog has no
	// majority would wait for one longer than that.
	defer time.AfterFunc(decidingTime, n.StopDeciding).Stop()
	kafka.stop(deadline)
	grpcServer.Stop(deadline)
	httpServer.Stop(deadline)
	err = first(err, n.Close(deadline))
	_ = peers.Close()
	for range running {
		// A port that was closed before its server came to look is no failure.
		if e := <-failed; !errors.Is(e, grpc.ErrServerStopped) && !errors.Is(e, net.ErrClosed) && !errors.Is(e, http.ErrServerClosed) {
			err = first(err, e)
		}
	}
	s.logger.Info("stopped")
	return err
}

// options are those of the node that listens at an address.
func (s serveSettings) options(address string) node.Options {
	if s.advertise != "" {
		address = s.advertise
	}
	scrubRate := s.scrubRate
	if scrubRate == 0 {
		scrubRate = -1
	}
	return node.Options{
		ScrubRate: scrubRate, ScrubEvery: s.scrubEvery, SegmentBytes: s.segmentBytes,
		KeepLeaders: !s.spreadLeaders,
		DataDir:     s.data, Name: s.name, GRPCAddress: address,
		Peers: s.peers, Join: s.join, JoinToken: s.token, LostAfter: s.lostAfter, FormAlone: s.alone(),
		Version: readVersion().Version, MinFree: s.minFree, Memory: s.memory, SyncDelay: s.syncDelay, ClockSkew: s.clockSkew, Logger: s.logger,
	}
}

// tuneRuntime sets what suits a server whose goroutines wait in fdatasync. An
// operator's own GOMAXPROCS and GOGC come first.
//
// A goroutine in a system call keeps its processor until the runtime notices,
// so one more than there are cores keeps all of them busy. And most of what a
// node allocates is short-lived beside little that stays, so collecting less
// often costs some tens of MiB and gives a fifth more appends on 128
// connections.
func tuneRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// takenPort explains why a port could not be listened on.
func takenPort(err error, flag string) error {
	return hintedError{
		err,
		"is another server running? to use another port: " + flag + " 127.0.0.1:PORT",
	}
}
