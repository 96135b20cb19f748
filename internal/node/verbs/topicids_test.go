package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATopicThatIsInNoStateHasNoLogs(t *testing.T) {
	require.Zero(t, new(KnownTopic).LogID("orders"))
}
