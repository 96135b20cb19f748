package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// reply is what a node sends that is asked for these entries.
func reply(t *testing.T, q EntriesRequest, entries ...StoredEntry) []byte {
	t.Helper()
	answers := peers.NewAnswers(nil, nil)
	answers.ToAnybody(peers.AskEntries, peers.AnswerTo(func(_ context.Context, q EntriesRequest) (any, error) {
		a := EntriesAnswer{Entries: entries, Settled: 9}
		if q.Bytes {
			a.Detach()
		}
		return a, nil
	}))
	request, err := json.Marshal(q)
	require.NoError(t, err)
	reply, err := answers.Answer(t.Context(), 2, peers.AskEntries, request)
	require.NoError(t, err)
	return reply
}

func TestTheLargestEntryFitsIntoAnAnswer(t *testing.T) {
	payload := bytes.Repeat([]byte{0xfb}, record.MaxEntryBytes)
	answered := reply(t, EntriesRequest{Bytes: true}, StoredEntry{Index: 1 << 60, Payload: payload})
	require.Less(t, len(answered), peer.MaxMessage)
	var a EntriesAnswer
	require.NoError(t, peers.Unwrap(answered, &a))
	require.True(t, bytes.Equal(payload, a.Entries[0].Payload))
	require.EqualValues(t, 1<<60, a.Entries[0].Index)
}

// A node of a release before either asks or answers.
func TestEntriesArriveWhetherTheirBytesFollowTheAnswerOrNot(t *testing.T) {
	entries := []StoredEntry{{Index: 7, Payload: []byte("seven")}, {Index: 8}, {Index: 9, Payload: []byte("nine")}}
	for _, asBytes := range []bool{true, false} {
		answered := reply(t, EntriesRequest{Bytes: asBytes}, append([]StoredEntry(nil), entries...)...)
		require.Equal(t, asBytes, bytes.HasSuffix(answered, []byte("sevennine")))
		var a EntriesAnswer
		require.NoError(t, peers.Unwrap(answered, &a))
		require.Equal(t, EntriesAnswer{Entries: entries, Settled: 9}, a)
	}
	answered := reply(t, EntriesRequest{Bytes: true}, append([]StoredEntry(nil), entries...)...)
	require.Error(t, peers.Unwrap(answered[:len(answered)-1], &EntriesAnswer{}), "cut short")
	require.Error(t, peers.Unwrap(append(answered, 'x'), &EntriesAnswer{}), "too much")
	require.Error(t, peers.Unwrap(append(reply(t, EntriesRequest{}), 'x'), &struct{}{}), "nothing may follow")
}
