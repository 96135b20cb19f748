package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/cluster"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/server"
)

// defaultDevData is where "dev" keeps the logs of its nodes.
const defaultDevData = "strandline-dev"

// NewDev makes the command dev.
func NewDev(c *terminal.Terminal) *cobra.Command {
	var (
		d     devSettings
		style = styleText
	)
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run three nodes in one process, to try a cluster",
		Long: `Run a cluster of three nodes, a, b and c, in one process on this machine: the first
start forms it, later ones continue with its data. Each node has a directory and
ports of its own for gRPC, Kafka and HTTP, and works as on three machines. If a port
is in use, the next free one is used.

Only warnings of the nodes are shown. Ctrl-C stops all three cleanly. One machine
has one disk and one power supply: for important data, see "serve".`,
		Example: "  strandline dev\n  strandline dev --data /tmp/try --grpc 127.0.0.1:9001 --http 127.0.0.1:9101",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if c.Encrypted() {
				return terminal.Misused(command, "dev runs on this machine without encryption: leave out --tls-ca, --tls-cert and --tls-key")
			}
			for i, address := range []string{d.grpc, d.http, d.kafka} {
				if new(serveSettings).checkListen(address) != nil && !(i == 2 && address == noKafka) {
					return terminal.Misused(command, "%s is not HOST:PORT of this machine, which dev needs", address)
				}
			}
			if err := checkMemory(command, d.memory, len(devNames)); err != nil {
				return err
			}
			c.JSON = c.JSON || style == styleJSON
			d.logger = func(name string) *slog.Logger {
				return slog.New(warningsOnly{style.logger(c.Err, logLevel(slog.LevelWarn)).Handler()}).With("node", name)
			}
			return d.run(command.Context(), func(nodes []served, status client.ClusterStatus) error { return announceDev(c, nodes, status) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&d.data, "data", defaultDevData, "`directory` for the nodes' data directories")
	flags.StringVar(&d.grpc, "grpc", terminal.DefaultGRPCAddress, "`address` of the first node's gRPC port; the others take the next ones")
	flags.StringVar(&d.kafka, "kafka", defaultKafkaAddress, "`address` of the first node's Kafka port; the others take the next ones; none for no such ports")
	flags.StringVar(&d.http, "http", terminal.DefaultHTTPAddress, "`address` of the first node's HTTP port; the others take the next ones")
	memoryFlag(flags, &d.memory, "how much memory the three nodes use together")
	flags.Var(&style, "log-format", "text or json; json also applies to the output at the start and at the end")
	_ = command.MarkFlagDirname("data")
	terminal.CompleteWords(command, "log-format", "text", "json")
	return command
}

// announceDev reports the addresses of the nodes, the leader, and commands to try.
func announceDev(c *terminal.Terminal, nodes []served, status client.ClusterStatus) error {
	object := struct {
		Nodes   []served           `json:"nodes"`
		Cluster cluster.StatusJSON `json:"cluster"`
	}{nodes, cluster.NewStatusJSON(status)}
	return c.Show(object, func(out io.Writer) {
		columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, "NODE\tGRPC\tKafka\tHTTP\tDATA")
		var addresses []string
		for _, n := range nodes {
			fmt.Fprintf(columns, "%s\t%s\t%s\thttp://%s/\t%s\n", n.Node, n.GRPC, n.Kafka, n.HTTP, n.Data)
			addresses = append(addresses, n.GRPC)
		}
		columns.Flush()
		fmt.Fprintln(out)
		columns = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, "LOG\tLEADER\tOFFSETS")
		for _, l := range status.Logs {
			fmt.Fprintf(columns, "%s\t%s\t[%d, %d)\n", l.Name, terminal.OrUnknown(l.Leader), l.Start, l.End)
		}
		columns.Flush()
		server := ""
		if addresses[0] != terminal.DefaultGRPCAddress {
			server = terminal.ServerFlag(addresses...)
		}
		fmt.Fprintf(out, `
Try, in another terminal:

  %[1]s log create orders --replicas 3%[2]s
  echo hello | %[1]s append orders%[2]s
  %[1]s read orders --from-start%[2]s
  %[1]s cluster status%[2]s
  %[1]s cluster transfer-leader orders --to b%[2]s

Ctrl-C ends all three.
`, terminal.Invocation(), server)
	})
}

// devNames are the nodes of "dev".
var devNames = []string{"a", "b", "c"}

// devPorts is how many ports are looked at for each that is needed.
const devPorts = 100

// devSettings is what "dev" was asked to do.
type devSettings struct {
	data       string
	grpc, http string // of the first node
	kafka      string // the same, or noKafka
	memory     int64  // of all nodes
	logger     func(name string) *slog.Logger
}

// run runs the nodes until ctx ends or one of them fails, and then ends all.
// announce is called once they are a cluster.
func (d devSettings) run(ctx context.Context, announce func([]served, client.ClusterStatus) error) error {
	nodes, err := d.takePorts()
	if err != nil {
		return err
	}
	peers := map[string]string{}
	for i, name := range devNames {
		peers[name] = nodes[i].GRPC.Addr().String()
	}
	for i, name := range devNames {
		nodes[i].KafkaAutoCreate, nodes[i].LogspecLog, nodes[i].OpenFiles = true, defaultLogspecLog, terminal.OpenFileLimit()
		nodes[i].Node = settings.Options{
			DataDir: filepath.Join(d.data, name), Name: name, Peers: peers,
			Version: terminal.ReadVersion().Version, Memory: d.memory / int64(len(devNames)), Logger: d.logger(name),
		}
	}
	tuneRuntime()
	running, stop := context.WithCancel(ctx)
	defer stop()
	useMemory(running, d.memory)
	cluster, err := server.StartCluster(ctx, nodes)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	var found []served
	for i, n := range cluster.Nodes {
		found = append(found, servedAt(n, nodes[i].Node.DataDir))
	}
	status, err := clusterStatus(ctx, found)
	if err == nil {
		err = announce(found, status)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-cluster.Failed():
		}
	}
	return cmp.Or(unlessEnded(ctx, err), cluster.Close())
}

// unlessEnded is err, or nil where the end of ctx may be the reason: dev was asked to
// end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func clusterStatus(ctx context.Context, nodes []served) (client.ClusterStatus, error) {
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.GRPC)
	}
	connection, err := client.Dial(addresses)
	if err != nil {
		return client.ClusterStatus{}, err
	}
	defer connection.Close()
	return connection.Admin().ClusterStatus(ctx)
}

// takePorts takes the ports of each node, from the first ones on.
func (d devSettings) takePorts() (taken []server.Options, err error) {
	grpc, http, kafka := d.grpc, d.http, d.kafka
	taken = make([]server.Options, len(devNames))
	for i := range taken {
		for _, port := range []struct {
			listener *net.Listener
			address  *string
		}{{&taken[i].GRPC, &grpc}, {&taken[i].Kafka, &kafka}, {&taken[i].HTTP, &http}} {
			if *port.address == noKafka {
				continue
			}
			if *port.listener, *port.address, err = takeNext(*port.address); err != nil {
				for _, o := range taken {
					o.CloseListeners()
				}
				return nil, err
			}
		}
	}
	return taken, nil
}

// takeNext listens at an address, or at the first port after it that is free,
// and returns the address to continue with.
func takeNext(address string) (l net.Listener, next string, err error) {
	for range devPorts {
		if next, err = nextAddress(address); err != nil {
			return nil, "", err
		}
		l, err = net.Listen("tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, next, err
		}
		address = next
	}
	return nil, "", err
}

// warningsOnly leaves out what a node says of its ordinary life.
type warningsOnly struct{ slog.Handler }

func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warningsOnly) WithAttrs(a []slog.Attr) slog.Handler {
	return warningsOnly{h.Handler.WithAttrs(a)}
}

func (h warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{h.Handler.WithGroup(name)}
}

// nextAddress is the same host at the next port; port 0 stays.
func nextAddress(address string) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", err
	}
	if port == 1<<16-1 {
		return "", fmt.Errorf("no free port after %s", address)
	}
	if port > 0 {
		port++
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}
