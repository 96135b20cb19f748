package kafkaserver

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTableOfRequestsIsThatOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kafka.md")
	require.NoError(t, err)
	for _, a := range apis {
		name := a.name
		if name == "InitProducerID" {
			name = "InitProducerId"
		}
		require.Contains(t, string(text), fmt.Sprintf("\n| %s | %d-%d |", name, a.min, a.max))
	}
}
