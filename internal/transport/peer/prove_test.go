package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// proving lets a connection prove one name, whoever is there.
func proving(name string) func(*Options) {
	return func(o *Options) {
		o.Prove = func(_ net.Conn, claimed string) (string, error) {
			if claimed != "" && claimed != name {
				return "", fmt.Errorf("%s calls itself %s", name, claimed)
			}
			return name, nil
		}
		o.Answer = func(ctx context.Context, _ NodeID, _ string, _ []byte) ([]byte, error) {
			return []byte(ProvedName(ctx)), nil
		}
	}
}

func TestAnswersKnowWhichNodeIsProvedToAsk(t *testing.T) {
	a, b := newMember(t, 1, proving("c")), newMember(t, 2, proving("b")) // node 1 is b, and 2 is c
	join(a, b)
	require.Equal(t, change{2, true, false}, next(t, a.changes))
	require.Equal(t, change{1, true, false}, next(t, b.changes))
	name, err := a.Call(t.Context(), 2, "who", nil)
	require.NoError(t, err)
	require.Equal(t, "b", string(name))
	name, err = b.Call(t.Context(), 1, "who", nil)
	require.NoError(t, err)
	require.Equal(t, "c", string(name))
	// One that has not said who it is.
	unknown := newMember(t, 3, proving("c"))
	name, err = unknown.Ask(t.Context(), b.node.Address, "who", nil)
	require.NoError(t, err)
	require.Equal(t, "b", string(name))
	require.Empty(t, ProvedName(t.Context()))
}

func TestANodeThatProvesAnotherNameIsRefusedOnBothSides(t *testing.T) {
	// Node 1 dials, and proves to be d.
	a, b := newMember(t, 1), newMember(t, 2, proving("d"))
	join(a, b)
	require.Equal(t, "d calls itself b", next(t, a.refusals))
	_, err := a.Ask(t.Context(), b.node.Address, "who", nil)
	refusal, ok := errors.AsType[*RefusedError](err)
	require.True(t, ok, err)
	require.Equal(t, "d calls itself b", refusal.Reason)
	require.False(t, a.Send(2, 1, 1, false, net.Buffers{[]byte("message")}))

	// And here the one that is dialled.
	a, b = newMember(t, 1, proving("d")), newMember(t, 2)
	join(a, b)
	require.Equal(t, "d calls itself c", next(t, b.refusals))
	require.Empty(t, a.changes)
	require.Empty(t, b.delivered)
}
