// Package serve is the commands that run nodes: serve and dev. They change what belongs
// to the process, its memory limit and processors; the node itself is internal/server's.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/server"
	"strandline.dev/internal/server/kafka/topics"
	"strandline.dev/internal/transport/secure"
)

const (
	defaultKafkaAddress = "127.0.0.1:9092"
	// noKafka as an address serves no Kafka port.
	noKafka           = "none"
	defaultLogspecLog = "logspec"
)

// serveSettings is what "serve" was asked to do. Until check, Node.GRPCAddress and
// Node.KafkaAddress are what --advertise and --kafka-advertise say.
type serveSettings struct {
	server.Options
	grpc, http, kafka string // where to listen
	administrator     string
	joinTokenFile     string
	spreadLeaders     bool
	archive           string
	tracing           tracing
	files             secure.Files
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

func servedAt(n *server.Server, data string) served {
	return served{Node: n.Name(), GRPC: n.GRPC(), HTTP: n.HTTP(), Kafka: cmp.Or(n.Kafka(), noKafka), Data: data, Waiting: n.Waiting()}
}

// run runs a node until ctx ends or a port fails, and then stops it. announce is
// called once everything listens.
func (s serveSettings) run(ctx context.Context, announce func(served) error) error {
	// All ports are taken before any data is touched, so that a second server
	// started by mistake does nothing.
	if err := s.listen(); err != nil {
		return err
	}
	tuneRuntime()
	running, stop := context.WithCancel(ctx)
	defer stop()
	useMemory(running, s.Node.Memory)
	endTracing, err := s.tracing.begin(&s.Node)
	if err != nil {
		s.CloseListeners()
		return err
	}
	defer endTracing()
	n, err := server.Start(s.options())
	if err != nil {
		return err
	}
	go reloadOnHangup(running, s.Credentials, n, s.Node.Logger)
	if err = announce(servedAt(n, s.Node.DataDir)); err == nil {
		select {
		case <-ctx.Done():
		case err = <-n.Failed():
		}
	}
	return cmp.Or(err, n.Close())
}

// options are those of a server, out of flags that mean something else.
func (s serveSettings) options() server.Options {
	o := s.Options
	o.Node.KeepLeaders, o.Node.FormAlone = !s.spreadLeaders, s.alone()
	o.Node.ScrubRate = cmp.Or(o.Node.ScrubRate, -1)
	if s.secured() {
		o.Node.Administrator = s.administrator
	}
	return o
}

func (s *serveSettings) listen() (err error) {
	for _, port := range []struct {
		listener      *net.Listener
		flag, address string
	}{{&s.GRPC, "--grpc", s.grpc}, {&s.HTTP, "--http", s.http}, {&s.Kafka, "--kafka", s.kafka}} {
		if port.address == noKafka {
			continue
		}
		if *port.listener, err = net.Listen("tcp", port.address); err != nil {
			s.CloseListeners()
			return terminal.Hinted(err, "is another server running? to use another port: "+port.flag+" 127.0.0.1:PORT")
		}
	}
	return nil
}

// New makes the command serve.
func New(c *terminal.Terminal) *cobra.Command {
	var (
		s     serveSettings
		style = styleText
		level = logLevel(slog.LevelInfo)
	)
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node: logs over gRPC (strandline.v1 and logspec) and as topics over the
Kafka protocol, metrics and health over HTTP. An acknowledged record is on disk.
The data directory is created if it does not exist; no other process can use it at
the same time.

By default a new node is a cluster of one. With --peers it waits until "strandline
cluster init" forms a cluster of the named nodes, once; with --join it asks the named
nodes to admit it to their cluster. Clients and other nodes use
the same port. A node that belongs to a cluster stays in it, keeps its name, and
finds the others again by itself, whatever --peers and --join say.

With --tls-cert, --tls-key and --tls-ca all ports speak TLS 1.3, and nodes authenticate
each other; with --client-ca clients must authenticate too. "strandline certs" makes the
files. They are read again when they change, or on SIGHUP, which also reopens the
--audit-log. An address beyond this machine needs all four flags, or --insecure, which
accepts unencrypted connections, for a laboratory, or beside encrypted ones while a cluster
is being secured. A cluster that is formed at such an address without --insecure refuses
requests without a grant from its beginning ("strandline grant"). At first only
--administrator and the nodes have rights there.

SIGTERM or Ctrl-C completes the requests in progress and ends with exit code 0, within 10 s.`,
		Example: `  strandline serve
  strandline serve --data /var/lib/strandline --log-format json
  strandline serve --grpc 10.0.0.1:7171 --kafka 10.0.0.1:9092 --tls-ca certs/ca.crt --tls-cert certs/node-node1.crt --tls-key certs/node-node1.key --client-ca certs/ca.crt
  strandline serve --node-name a --data a --kafka 127.0.0.1:9092 --http 127.0.0.1:7271 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name b --data b --kafka 127.0.0.1:9093 --http 127.0.0.1:7272 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name c --data c --kafka 127.0.0.1:9094 --http 127.0.0.1:7273 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name d --data d --kafka 127.0.0.1:9095 --http 127.0.0.1:7274 --grpc 127.0.0.1:7174 --join 127.0.0.1:7171`,
		Args: terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			s.Insecure = c.Insecure
			s.files.Authority, s.files.Certificate, s.files.Key = c.Files.Authority, c.Files.Certificate, c.Files.Key
			if err := cmp.Or(s.checkFiles(), s.checkAdministrator(), s.tracing.check(), s.check(command.Flags().Changed("grpc"))); err != nil {
				return terminal.Misused(command, "%w", err)
			}
			if err := checkMemory(command, s.Node.Memory, 1); err != nil {
				return err
			}
			if s.Node.DiskStall == 0 {
				return terminal.Misused(command, "--disk-stall must be above 0")
			}
			if n := s.KafkaAutoPartitions; n < 1 || n > topics.MaxPartitions {
				return terminal.Misused(command, "--kafka-auto-partitions must be 1 to %d, not %d", topics.MaxPartitions, n)
			}
			if s.archive != "" {
				var err error
				if s.Node.Archive, err = terminal.OpenBucket(s.archive); err != nil {
					return terminal.Misused(command, "--archive: %w", err)
				}
			}
			// A log collector reads both streams: then all of both is JSON.
			c.JSON = c.JSON || style == styleJSON
			s.Node.Logger = style.logger(c.Err, level)
			if err := s.secure(); err != nil {
				return err
			}
			return s.run(command.Context(), func(at served) error { return announce(c, at, s) })
		},
	}
	s.Node = settings.Options{
		Version: terminal.ReadVersion().Version, MinFree: settings.DefaultMinFree, LostAfter: settings.DefaultLostAfter,
		DiskStall: settings.DefaultDiskStall, ScrubRate: settings.DefaultScrubRate, ScrubEvery: settings.DefaultScrubEvery,
		ArchiveAfter: settings.DefaultArchiveAfter,
	}
	s.OpenFiles = terminal.OpenFileLimit()
	flags := command.Flags()
	flags.StringVar(&s.Node.DataDir, "data", terminal.DefaultData, "data `directory`")
	flags.StringVar(&s.Node.Name, "node-name", settings.DefaultName, "`name` of this node in its cluster: unique and permanent")
	flags.Var((*peerFlag)(&s.Node.Peers), "peers", "the nodes that form the cluster, including this one: a=HOST:PORT,b=...")
	flags.Var((*labelFlag)(&s.Node.Labels), "label", "a `label` for the place of the node, such as dc=fra; may be given once for each key")
	flags.StringVar(&s.Node.CompressBetween, "compress-between", "", "compress entries sent to nodes that have another label of this `key`, such as dc")
	flags.StringSliceVar(&s.Node.Join, "join", nil, "`addresses` of nodes of a running cluster that this node joins")
	flags.StringVar(&s.Node.JoinToken, "join-token", "", "`token` of \"cluster token\", to join without being announced; rather in STRANDLINE_SERVE_JOIN_TOKEN or --join-token-file: other users of the machine see flags")
	flags.StringVar(&s.joinTokenFile, "join-token-file", "", "the `file` with that token, read at the start")
	flags.StringVar(&s.Node.GRPCAddress, "advertise", "", "`address` at which clients and other nodes reach this one (default: its own in --peers, or --grpc)")
	flags.StringVar(&s.grpc, "grpc", terminal.DefaultGRPCAddress, "`address` of the gRPC port, also for other nodes; port 0 selects any free port")
	flags.StringVar(&s.kafka, "kafka", defaultKafkaAddress, "`address` of the Kafka port; none for no such port")
	flags.StringVar(&s.Node.KafkaAddress, "kafka-advertise", "", "`address` at which Kafka's clients reach this node, behind NAT or in a container (default: --kafka, or where the node is reached)")
	flags.BoolVar(&s.KafkaAutoCreate, "kafka-auto-create", false, "create a topic when a Kafka client asks for one that does not exist")
	flags.IntVar(&s.KafkaAutoPartitions, "kafka-auto-partitions", 1, "how many partitions such a topic gets, and one created without a number: a `number` from 1 to 1000")
	flags.StringVar(&s.http, "http", terminal.DefaultHTTPAddress, "`address` of the HTTP port: strandline.v1 as JSON, /metrics, /livez, /readyz")
	flags.StringSliceVar(&s.HTTPOrigins, "http-origins", nil, "`origins` of web pages that may call the HTTP port besides its own, such as https://console.example")
	flags.StringVar(&s.LogspecLog, "logspec-log", defaultLogspecLog, "the `log` that the logspec service shows, created when it is first used")
	flags.StringVar(&s.files.Clients, "client-ca", "", "accept certificates of clients from the authorities in this PEM `file`, and refuse clients without a certificate, or where rights are enforced a token or a password")
	flags.StringVar(&s.administrator, "administrator", "user/admin", "the `principal` that may form and administer a cluster that begins secured")
	flags.StringVar(&s.AuditLog, "audit-log", "", "append a line of JSON for each change and each refusal to this `file`; it is reopened on SIGHUP")
	flags.IntVar(&s.PerAddress, "connections-per-address", secure.DefaultPerAddress, "how many connections of a port one address may hold; 0: any `number`")
	flags.Var((*terminal.Size)(&s.Node.MinFree), "min-free", "how much of the disk is kept free: if less is free, appends are refused")
	flags.Var((*terminal.Duration)(&s.Node.DiskStall), "disk-stall", "how long a write may take before the disk counts as stalled: the node hands over what it leads")
	memoryFlag(flags, &s.Node.Memory, "how much memory the node uses")
	flags.Var((*terminal.Size)(&s.Node.ScrubRate), "scrub-rate", "how much of the stored data is read per second to find damage; 0: none")
	flags.Var((*terminal.Duration)(&s.Node.ScrubEvery), "scrub-every", "how often all stored data is read to find damage")
	flags.StringVar(&s.archive, "archive", "", "archive all logs on disk at this `URL`, file:///DIRECTORY or s3://BUCKET/PREFIX; all nodes have the same. Endpoint, region and credentials of S3 come from the environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, ...) or ~/.aws/credentials")
	flags.Var((*terminal.Duration)(&s.Node.ArchiveAfter), "archive-after", "how long records wait at most for 32 MiB of their log to archive together")
	flags.BoolVar(&s.spreadLeaders, "spread-leaders", true, "keep leaders evenly spread over the nodes, by handing some over")
	flags.StringVar(&s.tracing.to, "trace-to", "", "send spans of appends to the OpenTelemetry collector at this `URL`, as OTLP over HTTP, such as http://127.0.0.1:4318")
	flags.Float64Var(&s.tracing.share, "trace-share", 0.01, "the `share`, 0 to 1, of the appends that are traced unless they come with a trace of their own")
	flags.BoolVar(&s.Profiles, "pprof", false, "serve Go's profiles under /debug/pprof/ on the HTTP port")
	flags.Var(&style, "log-format", "text or json; json also applies to the output at the start and at the end")
	flags.Var(&level, "log-level", "lowest `level` of the messages that are logged: debug, info, warn or error; debug includes those of Raft")
	flags.Var((*terminal.Size)(&s.Node.SegmentBytes), "segment-size", "size of a segment file; small ones let a test have many")
	flags.Var((*terminal.Duration)(&s.Node.SyncDelay), "fsync-delay", "sleep this long after each fdatasync, to see what a slower disk would do")
	flags.DurationVar(&s.Node.ClockSkew, "clock-skew", 0, "add this to the time of day, to show the effect of a wrong clock")
	flags.Var((*terminal.Duration)(&s.Node.LostAfter), "lost-after", "how long a node cannot be reached before its vote on the catalog goes to another")
	for _, forTests := range []string{"scrub-every", "segment-size", "fsync-delay", "clock-skew", "lost-after"} {
		_ = flags.MarkHidden(forTests)
	}
	_ = command.MarkFlagDirname("data")
	terminal.CompleteWords(command, "log-format", "text", "json")
	terminal.CompleteWords(command, "log-level", "debug", "info", "warn", "error")
	return command
}

// announce reports where the node is and what to try first.
func announce(c *terminal.Terminal, at served, s serveSettings) error {
	return c.Show(at, func(out io.Writer) {
		terminal.Fields(out, "node", at.Node, "gRPC", at.GRPC, "Kafka", at.Kafka, "HTTP", s.scheme()+"://"+at.HTTP+"/metrics", "data", at.Data)
		// Clients reach it where it says it is, and its certificate is for that name.
		me, server := terminal.Invocation(), terminal.ServerFlag(cmp.Or(s.Node.GRPCAddress, at.GRPC))
		switch {
		case at.Waiting && len(s.Node.Join) > 0:
			fmt.Fprintf(out, `
It asks to be taken into the cluster. To wait in another terminal until it is:

  %s cluster add-node %s %s --server %s
`, me, at.Node, cmp.Or(s.Node.GRPCAddress, at.GRPC), s.Node.Join[0])
		case at.Waiting:
			fmt.Fprintf(out, `
It waits for its cluster to be formed. Start the other nodes, and then, once and
on any of them:

  %s cluster init%s
`, me, server)
		default:
			fmt.Fprintf(out, `
Try, in another terminal:

  %[1]s log create orders%[2]s
  echo hello | %[1]s append orders%[2]s
  %[1]s read orders --from-start%[2]s
`, me, server)
		}
		fmt.Fprint(out, "\nCtrl-C ends it.\n")
	})
}

// scheme is what the HTTP port speaks.
func (s *serveSettings) scheme() string {
	if s.files.Certificate != "" {
		return "https"
	}
	return "http"
}

// logStyle is how the server's own log is written.
type logStyle string

const (
	styleText logStyle = "text"
	styleJSON logStyle = "json"
)

func (s *logStyle) Set(text string) error {
	switch known := logStyle(text); known {
	case styleText, styleJSON:
		*s = known
		return nil
	}
	return errors.New("must be text or json")
}

func (s logStyle) String() string { return string(s) }

func (*logStyle) Type() string { return "format" }

func (s logStyle) logger(out io.Writer, least logLevel) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.Level(least)}
	if s == styleJSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}

// logLevel is the least level of the lines of the server's own log.
type logLevel slog.Level

func (l *logLevel) Set(text string) error {
	for _, known := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(text, known.String()) {
			*l = logLevel(known)
			return nil
		}
	}
	return errors.New("must be debug, info, warn or error")
}

func (l logLevel) String() string { return strings.ToLower(slog.Level(l).String()) }

func (*logLevel) Type() string { return "level" }
