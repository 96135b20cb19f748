package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAdvertisedKafkaAddressLeadsOthers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		listens, node, want string
	}{
		"on one machine":              {"127.0.0.1:9092", "127.0.0.1:7171", "127.0.0.1:9092"},
		"on one machine by its name":  {"127.0.0.1:9092", "localhost:7171", "127.0.0.1:9092"},
		"on all interfaces":           {"[::]:9092", "10.0.0.1:7171", "10.0.0.1:9092"},
		"on all, of a node by a name": {"0.0.0.0:9092", "a.example:7171", "a.example:9092"},
		"on one interface":            {"10.1.0.1:9092", "10.0.0.1:7171", "10.1.0.1:9092"},
		"alone, on all interfaces":    {"[::]:9092", "[::]:7171", ""},
	} {
		got, err := advertisedKafka(row.listens, row.node)
		require.NoError(t, err, name)
		require.Equal(t, row.want, got, name)
	}
}

func TestAKafkaPortOfOneMachineIsNotAdvertised(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"10.0.0.1:7171", "a.example:7171", "[::]:7171", "[2001:db8::1]:7171"} {
		for _, listens := range []string{"127.0.0.1:9092", "[::1]:9092"} {
			got, err := advertisedKafka(listens, node)
			require.ErrorContains(t, err, "--kafka-advertise", "%s of %s", listens, node)
			require.Empty(t, got)
		}
	}
}
