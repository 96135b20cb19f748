package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

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
Kafka protocol, metrics and health over HTTP. An acknowledged record is on disk. The data directory is made if it is not
there; no other process can use it at the same time.

Nothing is encrypted yet, so addresses beyond this machine are refused unless
--insecure is given. SIGTERM or Ctrl-C finishes what is in flight and ends with
exit code 0, within 10 s.`,
		Example: `  strandline serve
  strandline serve --data /var/lib/strandline --log-format json
  strandline serve --grpc 0.0.0.0:7171 --insecure`,
		Args: named(),
		RunE: func(command *cobra.Command, _ []string) error {
			for _, address := range []string{s.grpc, s.kafka, s.http} {
				if err := checkListen(address, c.insecure); err != nil {
					return usageError{err, command.CommandPath()}
				}
			}
			s.logger = style.logger(c.err)
			return s.serve(command.Context(), c.announce)
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.data, "data", defaultData, "data `directory`")
	flags.StringVar(&s.grpc, "grpc", defaultGRPCAddress, "`address` of the gRPC port; port 0 takes any that is free")
	flags.StringVar(&s.kafka, "kafka", defaultKafkaAddress, "`address` of the Kafka port; port 0 takes any that is free")
	flags.StringVar(&s.http, "http", defaultHTTPAddress, "`address` of the HTTP port: /metrics, /livez, /readyz")
	flags.StringVar(&s.logspecLog, "logspec-log", "logspec", "the `log` that the logspec service shows, created when it is first used")
	s.minFree = node.DefaultMinFree
	flags.Var((*size)(&s.minFree), "min-free", "how much of the disk stays free: below, appends are refused")
	flags.BoolVar(&s.pprof, "pprof", false, "serve Go's profiles under /debug/pprof/ on the HTTP port")
	flags.Var(&style, "log-format", "text or json")
	flags.Var((*duration)(&s.syncDelay), "fsync-delay", "sleep this long after each fdatasync, to see what a slower disk would do")
	_ = flags.MarkHidden("fsync-delay")
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
	if ip := net.ParseIP(host); insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return hintedError{
		fmt.Errorf("listen on %s: others can reach that address, and nothing is encrypted or checked yet", address),
		"to do so all the same: --insecure",
	}
}

// announce tells where the node is and what to try first.
func (c *cli) announce(grpc, kafka, http, data string) error {
	object := struct {
		GRPC  string `json:"grpc"`
		Kafka string `json:"kafka"`
		HTTP  string `json:"http"`
		Data  string `json:"data"`
	}{grpc, kafka, http, data}
	return c.show(object, func(out io.Writer) {
		me := invocation()
		server := ""
		if grpc != defaultGRPCAddress {
			server = " --server " + grpc
		}
		fields(out, "gRPC", grpc, "Kafka", kafka, "HTTP", "http://"+http+"/metrics", "data", data)
		fmt.Fprintf(out, `
Try, in another terminal:

  %[1]s log create orders%[2]s
  echo hello | %[1]s append orders%[2]s
  %[1]s read orders --from-start%[2]s

Ctrl-C ends it.
`, me, server)
	})
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
