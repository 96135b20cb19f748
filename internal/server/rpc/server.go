// Package rpc is the gRPC server that strandline.v1 and logspec share on one port: its options and
// limits, and the stream handling of both services. It handles statuses, messages and bytes, and
// has no rules about logs.
//
// Start with Server (server.go). A message of an append stream is admitted
// under a Budget while gRPC still holds its bytes (codec.go), its answer waits
// for its turn in a Line (line.go), and a refusal becomes a status in
// refusal.go and nowhere else.
package rpc

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/transport/lean"
)

// Server is the gRPC port. Services register with it before Serve.
type Server struct {
	*grpc.Server
	// Appends is shared by all append streams of all services, and by the other ports of the node.
	Appends *budget.Pool
	// Inflating is shared in the same way.
	Inflating *Inflating

	options     Options
	streams     *lean.Server
	local       *Local
	answers     Flusher
	health      *health.Server
	serves      func() map[string]bool // methods, once all services are registered
	connections atomic.Int64
	unproved    Unproved
	readBytes   atomic.Int64 // of batches, sent to readers
	fileBytes   atomic.Int64 // of those, sent from files
	stopping    context.Context
	stop        context.CancelFunc
	// receivers are goroutines that outlive their handler by a moment: gRPC
	// wakes a RecvMsg only when the handler has returned.
	receivers sync.WaitGroup
}

// Options of a Server. A zero value means the default named with the field.
type Options struct {
	MaxConnections int // default DefaultMaxConnections
	MaxStreams     int // on one connection; default DefaultMaxStreams
	Logger         *slog.Logger
	// Appends limits the append requests that were received and not answered. The default is
	// DefaultInFlightBytes.
	Appends *budget.Pool
	// Inflow limits the bytes that connections send ahead while their requests wait. The default is
	// the same limit.
	Inflow *budget.Inflow
	// Answers limits the answers that clients have not read. The default is an eighth of it.
	Answers *budget.Shares
	// Inflating checks compressed batches. By default it has the same limit as Appends.
	Inflating *Inflating
	// Callers identifies callers. If it is nil, they are not identified.
	Callers Callers
}

// New returns a server with the health and reflection services.
func New(o Options) *Server {
	if o.MaxConnections == 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	if o.Appends == nil {
		o.Appends = budget.NewPool(DefaultInFlightBytes)
	}
	if o.Inflating == nil {
		o.Inflating = NewInflating(budget.New(DefaultInFlightBytes))
	}
	if o.Inflow == nil {
		o.Inflow = budget.NewInflow(DefaultInFlightBytes)
	}
	if o.Answers == nil {
		o.Answers = budget.NewShares(DefaultInFlightBytes / 8)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{options: o, Appends: o.Appends, Inflating: o.Inflating, health: health.NewServer()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.local = newLocal(s)
	s.Server = grpc.NewServer(
		grpc.ForceServerCodecV2(serverCodec),
		experimental.BufferPool(receiveBuffers),
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxHeaderListSize(maxMetadataBytes),
		grpc.MaxConcurrentStreams(uint32(o.MaxStreams)),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WaitForHandlers(true),
		grpc.StreamInterceptor(s.admitStream),
		grpc.InTapHandle(s.tap),
	)
	s.streams = lean.NewServer(lean.Options{Codec: serverCodec, MaxMessage: MaxRequestBytes, MaxCall: MaxCallBytes, Buffers: receiveBuffers, Intercept: s.admitStream, TryWrite: TryWriter, SendFile: FileSender})
	s.serves = sync.OnceValue(s.methods)
	s.Server.RegisterService(s.admitting(&grpc_health_v1.Health_ServiceDesc), healthService{s.health, s})
	reflection.Register(s.Server)
	return s
}

// RegisterService implements grpc.ServiceRegistrar. The streams of the service are also
// served on connections of their own.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	admitting := s.admitting(desc)
	s.Server.RegisterService(admitting, service)
	s.streams.RegisterService(desc, service)
	s.local.register(admitting, service)
}

// Local returns a connection with the services from inside the process.
func (s *Server) Local() *Local { return s.local }

// Serve accepts gRPC connections until Stop is called, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	for name := range s.GetServiceInfo() {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	return s.Server.Serve(s.limited(l))
}

// ServeStreams accepts connections that begin with lean.Magic, each with one stream, until Stop is
// called, and then returns nil.
func (s *Server) ServeStreams(l net.Listener) error { return s.streams.Serve(s.limited(l)) }

func (s *Server) limited(l net.Listener) net.Listener {
	return &limitedListener{
		Listener: l, limit: int64(s.options.MaxConnections), reserved: int64(min(reservedConnections, s.options.MaxConnections/10)), open: &s.connections, inflow: s.options.Inflow, logger: s.options.Logger, callers: s.options.Callers, unproved: &s.unproved,
	}
}

// Stop accepts no new calls, waits for those in progress, and answers every append that was passed
// to a log. If ctx ends first, it closes the remaining connections. All goroutines of the server
// have ended when it returns.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()
	s.stop()
	cut := context.AfterFunc(ctx, s.Server.Stop)
	var streams sync.WaitGroup
	streams.Go(func() { s.streams.Stop(ctx) })
	streams.Go(func() { s.local.stop(ctx) })
	s.GracefulStop()
	streams.Wait()
	cut()
	s.receivers.Wait()
}

// healthService ends watches when the server stops: a watch of gRPC's own service
// continues for as long as the client does, and the stop would wait for that.
type healthService struct {
	*health.Server
	server *Server
}

func (h healthService) Watch(q *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	ctx, end := h.server.UntilStop(stream.Context())
	defer end()
	err := h.Server.Watch(q, watchStream{stream, ctx})
	if ctx.Err() != nil {
		return StatusOf(ctx, ctx.Err())
	}
	return err
}

// watchStream is a stream with its own context.
type watchStream struct {
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]
	ctx context.Context
}

func (w watchStream) Context() context.Context { return w.ctx }

// Stopping returns a context that ends when the server begins to stop: unlimited streams must then
// finish.
func (s *Server) Stopping() context.Context { return s.stopping }

// UntilStop derives a context that also ends when the server begins to stop;
// the status that StatusOf returns then says so to the client.
func (s *Server) UntilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.stopping, func() { cancel(ErrStopping) })
	return ctx, func() { release(); cancel(nil) }
}

// Warn logs a problem with a client.
func (s *Server) Warn(message string, args ...any) { s.options.Logger.Warn(message, args...) }

// SentToReader counts bytes of batches that were sent to a reader.
func (s *Server) SentToReader(bytes int) { s.readBytes.Add(int64(bytes)) }

// SentFromFile counts bytes of batches that the system sent to a reader directly from a file.
func (s *Server) SentFromFile(bytes int) { s.fileBytes.Add(int64(bytes)) }

// Metrics of the gRPC port, for a Prometheus registry.
func (s *Server) Metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_append_in_flight_bytes",
			Help: "Bytes of the budget in use by unanswered append requests.",
		}, func() float64 { return float64(s.Appends.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_append_in_flight_limit_bytes",
			Help: "The budget in bytes for unanswered append requests.",
		}, func() float64 { return float64(s.Appends.Size()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "strandline_grpc_read_bytes_total", Help: "Bytes of batches sent to readers.",
		}, func() float64 { return float64(s.readBytes.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "strandline_grpc_read_from_files_bytes_total", Help: "Bytes of batches sent to readers directly from files, without reading them into memory.",
		}, func() float64 { return float64(s.fileBytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "strandline_grpc_connections", Help: "Open connections.",
		}, func() float64 { return float64(s.connections.Load()) }),
	}
}
