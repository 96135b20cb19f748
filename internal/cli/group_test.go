package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/cli/terminal"
)

func TestGroupsAreShownResetAndDeletedWithoutAKafkaPort(t *testing.T) {
	t.Parallel()
	p := startNode(t, t.TempDir(), "--kafka", "none")
	require.Equal(t, "GROUP  STATE  TYPE  MEMBERS  PRINCIPAL\n", p.must("", "group", "list"))
	p.must("", "log", "create", "orders")
	p.must("a\nb\nc\n", "append", "orders")

	reset := []string{"group", "reset", "billing", "--topic", "orders", "--to-offset"}
	require.Equal(t, "TOPIC   PARTITION  COMMITTED  TO  END  LAG AFTER\norders  0          none       1   3    2\n", p.must("", append(reset, "1", "--dry-run")...))
	o := p.run(nil, "group", "describe", "billing")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `there is no consumer group "billing" (PRECONDITION)`)
	require.Contains(t, o.err, "group list")
	require.Contains(t, p.must("", append(reset, "1")...), "reset group billing in 1 partition\n")
	require.Equal(t, `{"group":"billing","state":"Empty","protocol_type":"","members":0,"principal":""}`+"\n", p.must("", "group", "list", "--json"))
	require.Equal(t, "TOPIC   PARTITION  COMMITTED  END  LAG\norders  0          1          3    2\ntotal                              2\n", p.must("", "group", "lag", "billing"))
	require.Contains(t, p.must("", "group", "describe", "billing"), "\nstate        Empty\n")

	o = p.run(nil, append(reset, "4")...)
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Contains(t, o.err, "--to-offset 4: partition 0 of topic orders has only the offsets [0, 3)")
	o = p.run(nil, "group", "reset", "billing", "--topic", "orders:1", "--to-end")
	require.Equal(t, terminal.ExitUsage, o.code)
	require.Contains(t, o.err, "topic orders has no partition 1")
	o = p.run(nil, "group", "reset", "billing", "--topic", "absent", "--to-end")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, "LOG_NOT_FOUND")
	for flag, to := range map[string]string{"--to-end": "3", "--to-start": "0"} {
		require.Contains(t, p.must("", "group", "reset", "billing", "--topic", "orders:0", flag, "--json"), `"to_offset":`+to+"}\n", flag)
	}
	require.Contains(t, p.must("", "group", "reset", "billing", "--topic", "orders", "--to-time", "1h", "--dry-run", "--json"), `"to_offset":0,"dry_run":true}`)
	require.Contains(t, p.must("", "group", "reset", "billing", "--topic", "orders", "--to-time", "2190-01-31T08:00:00Z", "--dry-run", "--json"), `"to_offset":3,"dry_run":true}`)

	o = execute(t, nil, "", "__complete", "--server", p.grpc, "group", "describe", "")
	require.Contains(t, o.out, "billing\tEmpty\n")
	require.Equal(t, "evicted 0 members of group billing\n", p.must("", "group", "evict", "billing"))
	o = p.run(nil, "group", "evict", "billing", "nobody")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `the consumer group "billing" has no member "nobody"`)
	require.Equal(t, "deleted group billing\n", p.must("", "group", "delete", "billing"))
	o = p.run(nil, "group", "delete", "billing", "--json")
	require.Equal(t, terminal.ExitRefused, o.code)
	require.Contains(t, o.err, `"outcome":"not_done"`)
	require.Equal(t, terminal.ExitRefused, p.run(nil, "group", "lag", "billing").code)
}
