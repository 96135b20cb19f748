package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/test/corpus"
	"strandline.dev/test/disk/faultdisk"
)

// FuzzQuestion: whatever another node asks, and whatever it says of itself, is
// answered or refused in time. What it wants to change in the catalog is left to
// FuzzCatalogChange of package cluster.
func FuzzQuestion(f *testing.F) {
	corpus.Add(f)
	for kind, question := range map[string]any{
		askWho: nil, askStatus: nil, askLeads: nil, "something": nil,
		askJoin:     cluster.JoinRequest{Name: "b", Address: "127.0.0.1:1", Token: "t"},
		askTransfer: transferRequest{Log: "orders", Node: 2},
		askReady:    "orders",
		askKept:     keptRequest{[]keptReplica{{Log: 1, Replica: 2}}},
	} {
		body, err := json.Marshal(question)
		require.NoError(f, err)
		f.Add(kind, uint64(1), body)
		f.Add(kind, uint64(0), body)
	}
	n, err := Open(Options{FormAlone: true, DataDir: "data", MinFree: -1, Disk: faultdisk.New(1), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	f.Cleanup(func() { _ = n.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, kind string, from uint64, body []byte) {
		if kind == askCatalogAppend || kind == askInvite {
			return // an invitation is followed, to any address
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		reply, err := n.joiner.caller.answers.answer(ctx, from, kind, body)
		if err == nil {
			require.True(t, json.Valid(reply))
		}
		n.peers.hear(from, body)
		var answer cluster.JoinAnswer
		_ = unwrap(body, &answer)
	})
}
