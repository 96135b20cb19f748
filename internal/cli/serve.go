package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"strandline.dev/internal/node"
)

// defaultData is where a node keeps its logs unless told otherwise.
const defaultData = "strandline-data"

func newServe(c *cli) *cobra.Command {
	var (
		s     serveSettings
		style = styleText
	)
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node: logs over gRPC (strandline.v1 and logspec) and as topics over the
Kafka protocol, metrics and health over HTTP. An acknowledged record is on disk.
The data directory is made if it is not there; no other process can use it at the
same time.

Alone, a new node is a cluster of one. With --peers it waits until the nodes named
there are formed into a cluster, once, by "strandline cluster init"; with --join
it asks the nodes named there to take it into theirs. Clients and other nodes use
the same port. A node that belongs to a cluster stays in it, keeps its name, and
finds the others again by itself, whatever --peers and --join say.

Nothing is encrypted yet, so addresses beyond this machine are refused unless
--insecure is given. SIGTERM or Ctrl-C finishes what is in flight and ends with
exit code 0, within 10 s.`,
		Example: `  strandline serve
  strandline serve --data /var/lib/strandline --log-format json
  strandline serve --grpc 0.0.0.0:7171 --kafka 0.0.0.0:9092 --insecure
  strandline serve --node-name a --data a --kafka 127.0.0.1:9092 --http 127.0.0.1:7271 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name b --data b --kafka 127.0.0.1:9093 --http 127.0.0.1:7272 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name c --data c --kafka 127.0.0.1:9094 --http 127.0.0.1:7273 --peers a=127.0.0.1:7171,b=127.0.0.1:7172,c=127.0.0.1:7173
  strandline serve --node-name d --data d --kafka 127.0.0.1:9095 --http 127.0.0.1:7274 --grpc 127.0.0.1:7174 --join 127.0.0.1:7171`,
		Args: named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := s.settleMembership(command.Flags().Changed("grpc"), c.insecure); err != nil {
				return usageError{err, command.CommandPath()}
			}
			if err := s.checkKafka(c.insecure); err != nil {
				return usageError{err, command.CommandPath()}
			}
			for _, address := range []string{s.grpc, s.http} {
				if err := checkListen(address, c.insecure); err != nil {
					return usageError{err, command.CommandPath()}
				}
			}
			if err := checkMemory(command, s.memory, 1); err != nil {
				return err
			}
			// A log collector reads both streams: then all of both is JSON.
			c.json = c.json || style == styleJSON
			s.logger = style.logger(c.err)
			return s.serve(command.Context(), func(at served) error { return c.announce(at, s.membership) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.data, "data", defaultData, "data `directory`")
	s.membership.register(flags)
	flags.StringVar(&s.grpc, "grpc", defaultGRPCAddress, "`address` of the gRPC port, also for other nodes; port 0 takes any that is free")
	flags.StringVar(&s.kafka, "kafka", defaultKafkaAddress, "`address` of the Kafka port; none for no such port")
	flags.StringVar(&s.kafkaAdvertise, "kafka-advertise", "", "`address` at which Kafka's clients reach this node, behind NAT or in a container (default: --kafka, or where the node is reached)")
	flags.BoolVar(&s.kafkaAutoCreate, "kafka-auto-create", false, "create a topic when a Kafka client asks for one that is not there")
	flags.StringVar(&s.http, "http", defaultHTTPAddress, "`address` of the HTTP port: /metrics, /livez, /readyz")
	flags.StringVar(&s.logspecLog, "logspec-log", "logspec", "the `log` that the logspec service shows, created when it is first used")
	s.minFree = node.DefaultMinFree
	flags.Var((*size)(&s.minFree), "min-free", "how much of the disk stays free of records: below, appends are refused")
	memoryFlag(flags, &s.memory, "how much memory the node uses")
	s.scrubRate = node.DefaultScrubRate
	flags.Var((*size)(&s.scrubRate), "scrub-rate", "how much of what is stored is read per second to find damage; 0: none")
	s.scrubEvery = node.DefaultScrubEvery
	flags.Var((*duration)(&s.scrubEvery), "scrub-every", "how often everything is read to find damage")
	_ = flags.MarkHidden("scrub-every")
	flags.BoolVar(&s.spreadLeaders, "spread-leaders", true, "keep leaders evenly spread over the nodes, by handing some over")
	flags.BoolVar(&s.pprof, "pprof", false, "serve Go's profiles under /debug/pprof/ on the HTTP port")
	flags.Var(&style, "log-format", "text or json; with json, what is printed at the start and at the end is JSON too")
	flags.Var((*size)(&s.segmentBytes), "segment-size", "size of a segment file; small ones let a test have many")
	_ = flags.MarkHidden("segment-size")
	flags.Var((*duration)(&s.syncDelay), "fsync-delay", "sleep this long after each fdatasync, to see what a slower disk would do")
	_ = flags.MarkHidden("fsync-delay")
	flags.DurationVar(&s.clockSkew, "clock-skew", 0, "add this to the time of day, to see what a clock that is wrong would do")
	_ = flags.MarkHidden("clock-skew")
	s.lostAfter = node.DefaultLostAfter
	flags.Var((*duration)(&s.lostAfter), "lost-after", "how long a node cannot be reached before its vote on the catalog goes to another")
	_ = flags.MarkHidden("lost-after")
	_ = command.MarkFlagDirname("data")
	completeWords(command, "log-format", "text", "json")
	return command
}

// checkListen refuses an address that others can reach, unless that is wanted.
func checkListen(address string, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", address, err)
	}
	if insecure || isLoopback(host) {
		return nil
	}
	return hintedError{
		fmt.Errorf("listen on %s: others can reach that address, and nothing is encrypted or checked yet", address),
		"to do so all the same: --insecure",
	}
}

// announce tells where the node is and what to try first.
func (c *cli) announce(at served, m membership) error {
	return c.show(at, func(out io.Writer) {
		fields(out, "node", at.Node, "gRPC", at.GRPC, "Kafka", at.Kafka, "HTTP", "http://"+at.HTTP+"/metrics", "data", at.Data)
		me, server := invocation(), serverFlag(at.GRPC)
		switch {
		case at.Waiting && len(m.join) > 0:
			fmt.Fprintf(out, `
It asks to be taken into the cluster. To wait in another terminal until it is:

  %s cluster add-node %s %s --server %s
`, me, at.Node, m.reachedAt(at.GRPC), m.join[0])
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

// serverFlag is what a suggested command needs to find a server.
func serverFlag(addresses ...string) string {
	if len(addresses) == 1 && addresses[0] == defaultGRPCAddress {
		return ""
	}
	return " --server " + strings.Join(addresses, ",")
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
	return errors.New("text or json")
}

func (s logStyle) String() string { return string(s) }

func (*logStyle) Type() string { return "format" }

func (s logStyle) logger(out io.Writer) *slog.Logger {
	if s == styleJSON {
		return slog.New(slog.NewJSONHandler(out, nil))
	}
	return slog.New(slog.NewTextHandler(out, nil))
}
