package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/reading"
)

// from is a caller of whom the servers know the address alone.
type from string

func (f from) String() string { return "anonymous" }
func (f from) Whose() string  { return string(f) }

func TestClientsWithoutAPrincipalHaveTurnsAndSearchesOfTheirOwnByAddress(t *testing.T) {
	t.Parallel()
	rd := Reads{turns: reading.NewTurns(1 << 30)}
	one, other := Caller{By: from("10.0.0.1")}, Caller{By: from("10.0.0.2")}
	require.Equal(t, rd.turnsOf(one), rd.turnsOf(Caller{By: from("10.0.0.1")}))
	require.NotEqual(t, rd.turnsOf(one), rd.turnsOf(other))
}
