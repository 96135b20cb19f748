package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who has proved nothing may ask once at a time: a stream that stays costs memory, and thousands of them little to begin.
func TestWhoHasProvedNothingMayAskTwoThingsAndWatchNothing(t *testing.T) {
	g := enforcing(t)
	for method, let := range map[string]bool{
		"/grpc.health.v1.Health/Check": true, "/strandline.v1.AccessService/WhoAmI": true,
		"/grpc.health.v1.Health/Watch": false, "/grpc.health.v1.Health/List": false, "/grpc.health.": false,
		"/strandline.v1.LogService/GetInfo": false, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": false,
	} {
		require.Equal(t, let, g.Admit(t.Context(), method) == nil, method)
	}
}
