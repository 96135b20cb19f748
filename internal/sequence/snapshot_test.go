package sequence

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

func TestTheBytesOfASnapshotAreForEver(t *testing.T) {
	state := "02000000" + "0500000000000000" + "0c00000000000000" + "0068e5cf8b010000" + "cefaedfe00000000" + "0300000000000000" +
		"02000000" + "01000000" + "01000000" + "7b7d"
	tree := "0000000000000000" + "0a00000000000000" + "4600000000000000" + "0300000000000000" + strings.Repeat("aa", 32) + strings.Repeat("bb", 32)
	sessions := "0b00000000000000" + "0000000000000000" + "00000000" + "30750000" + "0100000000000000" + "00000000" + "01000000" +
		"0200000000000000" + "00000000" + "01000000" + "0000000000000000" + "0200000000000000" + "0500000000000000" +
		"0300000000000000" + "01000000" + "01000000" + "0000000000000000" + "0300000000000000" + "0700000000000000" +
		"0400000000000000" + "0068e5cf8b010000" + "01000000" + "e8030000" + "0000000000000000" + "00000000" + "00000000" +
		"0000000000000000" + "00000000" + "00000000"
	backup := "0600000000000000" + "60ea0000" + "0000000000010000" + "0000100000000000" + "0600" + "0300" + "02000000" + hex.EncodeToString([]byte("backupopsp1"))
	later := "0c00000000000000" + "00000000" + "0000000000000000" + "0000000000000000" + "0500" + "0000" + "00000000" + hex.EncodeToString([]byte("later"))
	holds := "02000000" + backup + later
	// With the flag for principals.
	known := "06000000" + state[len("02000000"):]
	principals := "02000000" + backup + "0a00" + hex.EncodeToString([]byte("user/alice")) + later + "0000"
	for _, row := range []struct {
		text            string
		digested, holds bool
	}{
		{"01000000" + state + sessions, false, false},
		{"02000000" + state + sessions + holds, false, true},
		{"02000000" + known + sessions + principals, false, true},
		{"03000000" + state + tree + sessions + holds, true, true},
		{"03000000" + state + tree + sessions + "00000000", true, false},
	} {
		data, err := hex.DecodeString(row.text)
		require.NoError(t, err)
		data = appendChecksum(data)
		table, err := RestoreTable(data)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(data), hex.EncodeToString(table.Snapshot(nil)))

		require.Equal(t, logState{start: 5, end: 12, writerTerm: 3, fenced: true, sessions: 1, digested: row.digested, uncovered: table.digest.Uncovered, holds: table.log.holds}, table.log)
		require.Equal(t, 1, table.EndedSessions())
		require.Equal(t, row.digested, table.digest.Begun)
		if row.digested {
			require.Equal(t, []uint64{0, 10, 70, 3}, []uint64{uint64(table.digest.From), uint64(table.digest.Covered), table.digest.Uncovered, table.digest.Batches})
		}
		if row.holds {
			alice := ""
			if strings.Contains(row.text, principals) {
				alice = "user/alice"
			}
			require.Equal(t, []record.Hold{
				{Principal: alice, Name: "backup", Offset: 6, Owner: "ops", Lease: 60_000, MaxBytes: 1 << 40, MaxAge: 1 << 20, Pointer: []byte("p1")},
				{Name: "later", Offset: 12},
			}, table.Holds())
		}
	}
}
