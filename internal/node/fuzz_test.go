package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/node/settings"
	"strandline.dev/test/corpus"
	"strandline.dev/test/disk/faultdisk"
)

// FuzzQuestion: whatever another node asks, and whatever it says of itself, is
// answered or refused in time. What it wants to change in the catalog is left to
// FuzzCatalogChange of package cluster.
func FuzzQuestion(f *testing.F) {
	corpus.Add(f)
	for kind, question := range map[string]any{
		peers.AskWho: nil, peers.AskStatus: nil, peers.AskLeads: nil, "something": nil,
		peers.AskJoin:       cluster.JoinRequest{Name: "b", Address: "127.0.0.1:1", Token: "t"},
		peers.AskTransfer:   peers.TransferRequest{Log: "orders", Node: 2},
		peers.AskReady:      "orders",
		peers.AskLed:        "orders",
		peers.AskConfigured: peers.ConfiguredRequest{Log: "orders", ID: 1, Revision: 2},
		peers.AskKept:       replicas.KeptRequest{Replicas: []replicas.KeptReplica{{Log: 1, Replica: 2, End: &cluster.Kept{Runs: true}}}},
	} {
		body, err := json.Marshal(question)
		require.NoError(f, err)
		f.Add(kind, uint64(1), body)
		f.Add(kind, uint64(0), body)
	}
	n, err := Open(settings.Options{FormAlone: true, DataDir: "data", MinFree: -1, Disk: faultdisk.New(1), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	f.Cleanup(func() { _ = n.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, kind string, from uint64, body []byte) {
		if kind == peers.AskCatalogAppend || kind == peers.AskInvite {
			return // an invitation is followed, to any address
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		reply, err := n.Answers.Answer(ctx, from, kind, body)
		if err == nil {
			require.True(t, json.Valid(reply))
		}
		n.receiver.Hear(from, body)
		var answer cluster.JoinAnswer
		_ = peers.Unwrap(body, &answer)
	})
}
