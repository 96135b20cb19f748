package serve

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/settings"
)

func kafkaSettings(listens, advertised string, insecure bool) *serveSettings {
	s := &serveSettings{kafka: listens}
	s.Insecure = insecure
	s.Node = settings.Options{KafkaAddress: advertised}
	return s
}

func TestKafkaAddressesThatCannotWorkAreRefused(t *testing.T) {
	for _, row := range []struct {
		kafka, advertise string
		insecure         bool
		want             string
	}{
		{"0.0.0.0:9092", "", false, "other machines can reach this address"},
		{"127.0.0.1:9092", "10.0.0.1:9092", false, "on another machine"},
		{"127.0.0.1:9092", "0.0.0.0:9092", true, "clients cannot connect"},
		{"127.0.0.1:9092", "a.example:kafka", true, "the port must be a number"},
		{"127.0.0.1:9092", "a.example", true, "is not HOST:PORT"},
		{noKafka, "127.0.0.1:9092", false, "leave one of them out"},
	} {
		err := kafkaSettings(row.kafka, row.advertise, row.insecure).checkKafka()
		require.ErrorContains(t, err, row.want)
	}
	require.NoError(t, kafkaSettings(noKafka, "", false).checkKafka())
	require.NoError(t, kafkaSettings("0.0.0.0:9092", "a.example:9092", true).checkKafka())
}

// Several nodes on one machine share no directory and no port.
func TestTheNodesInTheExamplesOfServeDoNotMeet(t *testing.T) {
	taken := map[string]string{} // what a line takes, and which line
	nodes := 0
	for example := range strings.Lines(New(&terminal.Terminal{}).Example) {
		if !strings.Contains(example, "--node-name") {
			continue
		}
		nodes++
		command := New(&terminal.Terminal{})
		for _, everywhere := range []string{"tls-ca", "tls-cert", "tls-key"} {
			command.Flags().String(everywhere, "", "")
		}
		require.NoError(t, command.ParseFlags(strings.Fields(example)[2:]))
		command.Flags().VisitAll(func(f *pflag.Flag) {
			value := f.Value.String()
			if f.Name == "grpc" && !f.Changed {
				value = (*command.Flag("peers").Value.(*peerFlag))[command.Flag("node-name").Value.String()]
			}
			switch f.Name {
			case "data", "grpc", "kafka", "http":
				if value != noKafka {
					require.Empty(t, taken[value], "%s is taken twice: %s", value, example)
					taken[value] = example
				}
			}
		})
	}
	require.Equal(t, 4, nodes)
}
