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
	require.EqualError(t, unknownLogs(logs), "no node that holds these logs answers: unknown")
	require.NoError(t, unknownLogs(logs[:1]))

	var row map[string]any
	object, err := json.Marshal(newLogJSON(logs[1]))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(object, &row))
	require.Nil(t, row["end_offset"])
	require.Contains(t, row, "end_offset")
}
