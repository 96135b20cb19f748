package cli

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strandline.dev/client"
)

// defaultDevData is where "dev" keeps the logs of its nodes.
const defaultDevData = "strandline-dev"

func newDev(c *cli) *cobra.Command {
	var (
		d     devSettings
		style = styleText
	)
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run three nodes in one process, to try a cluster",
		Long: `Run a cluster of three nodes, a, b and c, in one process on this machine: the first
start forms it, later ones go on with its data. Each node has a directory and
ports of its own for gRPC, Kafka and HTTP, and what makes it a cluster is the same
as with three machines. A port that is taken is passed over for the next one.

Only warnings of the nodes are shown. Ctrl-C ends all three cleanly. One machine
is one disk and one power cord: for data that matter, see "serve".`,
		Example: "  strandline dev\n  strandline dev --data /tmp/try --grpc 127.0.0.1:9001 --http 127.0.0.1:9101",
		Args:    named(),
		RunE: func(command *cobra.Command, _ []string) error {
			addresses := []string{d.grpc, d.http}
			if d.kafka != noKafka {
				addresses = append(addresses, d.kafka)
			}
			for _, address := range addresses {
				if checkListen(address, false) != nil {
					return misused(command, "%s is not HOST:PORT of this machine, which is what dev is for", address)
				}
			}
			if err := checkMemory(command, d.memory, len(devNames)); err != nil {
				return err
			}
			c.json = c.json || style == styleJSON
			d.logs = func(name string) logSink { return logSink{style, c.err, name} }
			return d.run(command.Context(), c.announceDev)
		},
	}
	flags := command.Flags()
	flags.StringVar(&d.data, "data", defaultDevData, "`directory` for the nodes' data directories")
	flags.StringVar(&d.grpc, "grpc", defaultGRPCAddress, "`address` of the first node's gRPC port; the others take the next ones")
	flags.StringVar(&d.kafka, "kafka", defaultKafkaAddress, "`address` of the first node's Kafka port; the others take the next ones; none for no such ports")
	flags.StringVar(&d.http, "http", defaultHTTPAddress, "`address` of the first node's HTTP port; the others take the next ones")
	memoryFlag(flags, &d.memory, "how much memory the three nodes use together")
	flags.Var(&style, "log-format", "text or json; with json, what is printed at the start and at the end is JSON too")
	_ = command.MarkFlagDirname("data")
	completeWords(command, "log-format", "text", "json")
	return command
}

// announceDev tells where the nodes are, who leads, and what to try.
func (c *cli) announceDev(nodes []served, status client.ClusterStatus) error {
	object := struct {
		Nodes   []served    `json:"nodes"`
		Cluster clusterJSON `json:"cluster"`
	}{nodes, newClusterJSON(status)}
	return c.show(object, func(out io.Writer) {
		columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, "NODE\tGRPC\tKafka\tHTTP\tDATA")
		var addresses []string
		for _, n := range nodes {
			fmt.Fprintf(columns, "%s\t%s\t%s\thttp://%s/metrics\t%s\n", n.Node, n.GRPC, n.Kafka, n.HTTP, n.Data)
			addresses = append(addresses, n.GRPC)
		}
		columns.Flush()
		fmt.Fprintln(out)
		columns = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(columns, "LOG\tLEADER\tOFFSETS")
		for _, l := range status.Logs {
			fmt.Fprintf(columns, "%s\t%s\t[%d, %d)\n", l.Name, orUnknown(l.Leader), l.Start, l.End)
		}
		columns.Flush()
		server := ""
		if addresses[0] != defaultGRPCAddress {
			server = serverFlag(addresses...)
		}
		fmt.Fprintf(out, `
Try, in another terminal:

  %[1]s log create orders --replicas 3%[2]s
  echo hello | %[1]s append orders%[2]s
  %[1]s read orders --from-start%[2]s
  %[1]s cluster status%[2]s
  %[1]s cluster transfer-leader orders --to b%[2]s

Ctrl-C ends all three.
`, invocation(), server)
	})
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
		return "", fmt.Errorf("there is no port after %s", address)
	}
	if port > 0 {
		port++
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}
