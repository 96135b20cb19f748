package serve

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func TestAPortThatIsTakenIsPassedOver(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	d := devSettings{grpc: busy.Addr().String(), http: "127.0.0.1:0", kafka: noKafka}
	taken, err := d.takePorts()
	require.NoError(t, err)
	require.Len(t, taken, len(devNames))
	seen := map[string]bool{busy.Addr().String(): true}
	for _, p := range taken {
		for _, l := range []net.Listener{p.GRPC, p.HTTP} {
			require.False(t, seen[l.Addr().String()], "a port is given twice")
			seen[l.Addr().String()] = true
		}
		p.CloseListeners()
	}
	_, err = devSettings{grpc: "127.0.0.1:65535", http: "127.0.0.1:0", kafka: noKafka}.takePorts()
	require.ErrorContains(t, err, "no free port after")
}

func TestDevTakesNoKafkaPortsIfAskedTo(t *testing.T) {
	taken, err := devSettings{grpc: "127.0.0.1:0", http: "127.0.0.1:0", kafka: noKafka}.takePorts()
	require.NoError(t, err)
	for _, p := range taken {
		require.Nil(t, p.Kafka)
		p.CloseListeners()
	}
}

func TestOnlyWarningsOfTheNodesAreShown(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(warningsOnly{styleText.logger(&out, logLevel(slog.LevelInfo)).Handler()}).With("node", "a")
	logger.Info("serving")
	logger.With("log", "orders").WithGroup("disk").Info("too")
	require.Empty(t, out.String())
	logger.WithGroup("disk").Warn("nearly full")
	require.Contains(t, out.String(), "nearly full")
	require.Contains(t, out.String(), "node=a")
	require.False(t, logger.Enabled(context.Background(), slog.LevelInfo))
}

func TestDevSaysWhereItsNodesAreAndWhatToTry(t *testing.T) {
	nodes := []served{
		{Node: "a", GRPC: "127.0.0.1:9001", HTTP: "127.0.0.1:9101", Data: "x/a"},
		{Node: "b", GRPC: "127.0.0.1:9002", Kafka: "127.0.0.1:9093", HTTP: "127.0.0.1:9102", Data: "x/b"},
	}
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out}
	require.NoError(t, announceDev(c, nodes, client.ClusterStatus{Logs: []client.LogStatus{{Name: "orders", Leader: "a", End: 100}}}))
	require.Contains(t, out.String(), "b     127.0.0.1:9002  127.0.0.1:9093  http://127.0.0.1:9102/  x/b\n")
	require.Contains(t, out.String(), "orders  a       [0, 100)\n")
	require.Contains(t, out.String(), "append orders --server 127.0.0.1:9001,127.0.0.1:9002\n")
	out.Reset()
	nodes[0].GRPC = terminal.DefaultGRPCAddress
	require.NoError(t, announceDev(c, nodes, client.ClusterStatus{}))
	require.NotContains(t, out.String(), "--server")
}

func TestTheBannerNamesTheAdvertisedAddressAndTheSchemeOfTheHTTPPort(t *testing.T) {
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out}
	var s serveSettings
	s.files.Certificate, s.Node.GRPCAddress = "node.crt", "node1.example:7171"
	require.NoError(t, announce(c, served{Node: "a", GRPC: "[::]:7171", HTTP: "[::]:7271", Kafka: noKafka, Data: "x"}, s))
	require.Contains(t, out.String(), "https://[::]:7271/metrics")
	require.Contains(t, out.String(), "log create orders --server node1.example:7171\n")
	out.Reset()
	require.NoError(t, announce(c, served{Node: "a", GRPC: terminal.DefaultGRPCAddress, HTTP: "127.0.0.1:7271", Kafka: noKafka, Data: "x"}, serveSettings{}))
	require.Contains(t, out.String(), "http://127.0.0.1:7271/metrics")
	require.Contains(t, out.String(), "log create orders\n")
}

func TestTheLogHasTheLevelThatWasAskedFor(t *testing.T) {
	var level logLevel
	require.NoError(t, level.Set("WARN"))
	require.Equal(t, "warn", level.String())
	require.Error(t, level.Set("loud"))
	for _, style := range []logStyle{styleText, styleJSON} {
		var out bytes.Buffer
		logger := style.logger(&out, level)
		logger.Info("unheard")
		logger.Warn("heard")
		require.NotContains(t, out.String(), "unheard")
		require.Contains(t, out.String(), "heard")
		require.True(t, style.logger(&out, logLevel(slog.LevelDebug)).Enabled(t.Context(), slog.LevelDebug))
	}
}
