package log

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func TestAnUnknownRangeIsShownAsSuchAndIsAFailure(t *testing.T) {
	logs := []client.LogInfo{{Name: "known", Start: 3, End: 7}, {Name: "unknown", Unknown: true, Problem: "no node that holds it answers"}}
	var out bytes.Buffer
	c := &terminal.Terminal{Out: &out}
	require.NoError(t, showLogs(c, logs))
	require.Regexp(t, `known +3 +7 +0`, out.String())
	require.Regexp(t, `unknown +unknown +unknown +unknown .*no node that holds it answers`, out.String())
	require.EqualError(t, unknownLogs(logs), "no node with a replica answered for these logs: unknown")
	require.NoError(t, unknownLogs(logs[:1]))

	var row map[string]any
	object, err := json.Marshal(newLogJSON(logs[1]))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(object, &row))
	require.Nil(t, row["end_offset"])
	require.Contains(t, row, "end_offset")
}

func TestInfoSaysWhoseDiskHasRoom(t *testing.T) {
	replicas := []client.ReplicaAddress{{Node: "a", Lag: new(int64)}, {Node: "b", Leader: true, Lag: new(int64)}}
	info := client.LogInfo{Name: "orders", BytesUsed: 1 << 20, BytesFree: 57 << 30, Replicas: replicas}
	shown := func() string {
		var out bytes.Buffer
		require.NoError(t, showLog(&terminal.Terminal{Out: &out}, info))
		return out.String()
	}
	require.Regexp(t, `space +1 ?MiB used, 57 ?GiB free, on node b\n`, shown())
	replicas[1].Lag = nil // another node has answered
	require.Regexp(t, `57 ?GiB free, on the node that answered\n`, shown())
}
