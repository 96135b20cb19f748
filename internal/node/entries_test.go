package node

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

func TestAnEntryOfTheLargestBatchFitsIntoAnAnswer(t *testing.T) {
	a := replicas.EntriesAnswer{Entries: []replicas.StoredEntry{{Index: 1 << 60, Payload: make([]byte, record.MaxBatchBytes+1<<10)}}}
	for i := range a.Entries[0].Payload {
		a.Entries[0].Payload[i] = 0xfb // becomes + and / in base64
	}
	answer, err := json.Marshal(a)
	require.NoError(t, err)
	reply, err := json.Marshal(peers.Envelope{Answer: answer})
	require.NoError(t, err)
	require.Less(t, len(reply), peer.MaxMessage)
	var back replicas.EntriesAnswer
	require.NoError(t, peers.Unwrap(reply, &back))
	require.Equal(t, a, back)
}

func TestAnEntryThatIsNotWhatItSaysIsNotTaken(t *testing.T) {
	batch := request(t, "one", "two").Batches[0]
	good := replicas.StoredEntry{Index: 7, Count: 2, Payload: batch}
	require.Error(t, good.Check(), "a batch is no entry")
	a := replicas.EntriesAnswer{Entries: []replicas.StoredEntry{{Index: 5}, {Index: 6}, good, {Index: 8}}}
	require.Len(t, a.Frames(), 2)
}
