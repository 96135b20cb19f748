package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	grpcdoor "strandline.dev/internal/door/grpc"
	httpdoor "strandline.dev/internal/door/http"
	kafkadoor "strandline.dev/internal/door/kafka"
	logspecdoor "strandline.dev/internal/door/logspec"
	"strandline.dev/internal/door/rpc"
	"strandline.dev/internal/node"
)

// stopTime is how long a node has to finish what is in flight. With what comes
// after it stays under the 10 s that are promised.
const stopTime = 9 * time.Second

// serveSettings is what "serve" was asked to do.
type serveSettings struct {
	data       string
	grpc, http string
	kafka      string
	logspecLog string
	pprof      bool
	minFree    int64
	syncDelay  time.Duration
	logger     *slog.Logger
}

// serve runs a node until ctx ends or a port fails, and then stops it: the
// doors first, which answers what is in flight, then the node. announce is
// called once everything listens.
func (s serveSettings) serve(ctx context.Context, announce func(grpc, kafka, http, data string) error) error {
	tuneRuntime()
	// Both ports are taken before any data is touched, so that a second server
	// started by mistake does nothing.
	grpcPort, err := net.Listen("tcp", s.grpc)
	if err != nil {
		return takenPort(err, "--grpc")
	}
	defer grpcPort.Close()
	httpPort, err := net.Listen("tcp", s.http)
	if err != nil {
		return takenPort(err, "--http")
	}
	defer httpPort.Close()
	kafkaPort, err := net.Listen("tcp", s.kafka)
	if err != nil {
		return takenPort(err, "--kafka")
	}
	defer kafkaPort.Close()
	grpcAddress, httpAddress := grpcPort.Addr().String(), httpPort.Addr().String()

	n, err := node.Open(node.Options{DataDir: s.data, GRPCAddress: grpcAddress, MinFree: s.minFree, SyncDelay: s.syncDelay, Logger: s.logger})
	if err != nil {
		return err
	}
	grpcServer := rpc.New(rpc.Options{Logger: s.logger})
	grpcdoor.Register(grpcServer, grpcdoor.Verbs(n))
	logspecdoor.Register(grpcServer, logspecdoor.Verbs(n), s.logspecLog)
	kafkaServer := kafkadoor.New(kafkadoor.Verbs(n), kafkadoor.Options{Logger: s.logger})
	collectors := append(grpcServer.Metrics(), kafkaServer.Metrics()...)
	httpServer, err := httpdoor.New(n, httpdoor.Options{Profiles: s.pprof, Logger: s.logger, Collectors: collectors})
	if err != nil {
		return errors.Join(err, n.Close(ctx))
	}

	failed := make(chan error, 3)
	go func() { failed <- grpcServer.Serve(grpcPort) }()
	go func() { failed <- httpServer.Serve(httpPort) }()
	go func() { failed <- kafkaServer.Serve(kafkaPort) }()
	s.logger.Info("serving", "grpc", grpcAddress, "kafka", kafkaPort.Addr(), "http", httpAddress, "data", s.data)
	err = announce(grpcAddress, kafkaPort.Addr().String(), httpAddress, s.data)
	running := 3
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
	kafkaServer.Stop(deadline)
	grpcServer.Stop(deadline)
	httpServer.Stop(deadline)
	for range running {
		err = first(err, <-failed)
	}
	err = first(err, n.Close(deadline))
	s.logger.Info("stopped")
	return err
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
