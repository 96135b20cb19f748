package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestOthersAreToldAKafkaAddressThatLeadsThem(t *testing.T) {
	for name, row := range map[string]struct {
		advertise, listens, node, want string
	}{
		"on one machine":              {"", "127.0.0.1:9092", "127.0.0.1:7171", "127.0.0.1:9092"},
		"on one machine by its name":  {"", "127.0.0.1:9092", "localhost:7171", "127.0.0.1:9092"},
		"on all interfaces":           {"", "[::]:9092", "10.0.0.1:7171", "10.0.0.1:9092"},
		"on all, of a node by a name": {"", "0.0.0.0:9092", "a.example:7171", "a.example:9092"},
		"on one interface":            {"", "10.1.0.1:9092", "10.0.0.1:7171", "10.1.0.1:9092"},
		"as told":                     {"kafka.example:19092", "127.0.0.1:9092", "10.0.0.1:7171", "kafka.example:19092"},
		"alone, on all interfaces":    {"", "[::]:9092", "[::]:7171", ""},
	} {
		got, err := serveSettings{kafkaAdvertise: row.advertise}.kafkaReachedAt(row.listens, row.node)
		require.NoError(t, err, name)
		require.Equal(t, row.want, got, name)
	}
}

func TestAKafkaPortOfOneMachineIsNotToldToOthers(t *testing.T) {
	for _, node := range []string{"10.0.0.1:7171", "a.example:7171", "[::]:7171", "[2001:db8::1]:7171"} {
		for _, listens := range []string{"127.0.0.1:9092", "[::1]:9092"} {
			got, err := serveSettings{}.kafkaReachedAt(listens, node)
			require.ErrorContains(t, err, "--kafka-advertise", "%s of %s", listens, node)
			require.Empty(t, got)
		}
	}
}

func TestKafkaAddressesThatCannotWorkAreRefused(t *testing.T) {
	for _, row := range []struct {
		kafka, advertise string
		insecure         bool
		want             string
	}{
		{"0.0.0.0:9092", "", false, "others can reach that address"},
		{"127.0.0.1:9092", "10.0.0.1:9092", false, "beyond this machine"},
		{"127.0.0.1:9092", "0.0.0.0:9092", true, "nobody can connect"},
		{"127.0.0.1:9092", "a.example:kafka", true, "a number for a port"},
		{"127.0.0.1:9092", "a.example", true, "is not HOST:PORT"},
		{noKafka, "127.0.0.1:9092", false, "give one of them"},
	} {
		err := serveSettings{kafka: row.kafka, kafkaAdvertise: row.advertise}.checkKafka(row.insecure)
		require.ErrorContains(t, err, row.want)
	}
	require.NoError(t, serveSettings{kafka: noKafka}.checkKafka(false))
	require.NoError(t, serveSettings{kafka: "0.0.0.0:9092", kafkaAdvertise: "a.example:9092"}.checkKafka(true))
}

func TestANodeSaysOnceThatItsKafkaPortIsForThisMachineAlone(t *testing.T) {
	for _, row := range []struct {
		flags []string
		times int
	}{
		{[]string{"--grpc", "0.0.0.0:0", "--insecure"}, 1},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", "0.0.0.0:0", "--insecure"}, 0},
		{[]string{"--grpc", "0.0.0.0:0", "--kafka", noKafka, "--insecure"}, 0},
		{nil, 0},
	} {
		p := serve(t, t.TempDir(), row.flags...)
		require.Equal(t, exitOK, p.terminate())
		require.Equal(t, row.times, strings.Count(p.stderr.String(), "other nodes send no Kafka client"), "%v", row.flags)
	}
}

// Several nodes on one machine share no directory and no port.
func TestTheNodesInTheExamplesOfServeDoNotMeet(t *testing.T) {
	taken := map[string]string{} // what a line takes, and which line
	nodes := 0
	for example := range strings.Lines(newServe(&cli{}).Example) {
		if !strings.Contains(example, "--node-name") {
			continue
		}
		nodes++
		command := newServe(&cli{})
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
