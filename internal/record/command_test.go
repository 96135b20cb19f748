package record

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var sampleCommand = Command{
	Kind: Trim, Flags: FlagFastForward, Session: 1 << 60, Epoch: 7, Lease: 30_000, Offset: 1 << 41, WriterTerm: 12, Text: []byte("text"),
}

var commandNumbers = map[CommandKind]uint16{
	OpenSession: 1, CloseSession: 2, ExpireSession: 3, EndEpoch: 4, AcquireWriter: 5, Trim: 6, Seal: 7, Configure: 8, Fence: 9, ForgetSession: 10,
	LeaseWriter: 11, ReleaseWriter: 12,
	SetHold: 32, ReleaseHold: 33,
}

func TestACommandIsReadAsItWasWritten(t *testing.T) {
	for kind := range commandNumbers {
		want := sampleCommand
		want.Kind = kind
		got, err := ParseCommand(AppendCommand(nil, want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestACommandTravelsInAnEntry(t *testing.T) {
	data := AppendEntryHeader(nil, Entry{Kind: EntryCommand, Time: 5, Chain: 6, First: 7})
	e, err := ParseEntry(AppendCommand(data, sampleCommand))
	require.NoError(t, err)
	require.Equal(t, EntryCommand, e.Kind)
	require.Equal(t, Offset(7), e.End(), "a command takes no offset")
	got, err := ParseCommand(e.Body)
	require.NoError(t, err)
	require.Equal(t, sampleCommand, got)
}

func TestTheBytesOfACommandAreForEver(t *testing.T) {
	require.Equal(t, "0600"+"0000"+"01000000"+"0000000000000010"+"07000000"+"30750000"+"0000000000020000"+"0c00000000000000"+"0000000000000000"+"74657874",
		hex.EncodeToString(AppendCommand(nil, sampleCommand)))
	for kind, number := range commandNumbers {
		require.EqualValues(t, number, kind)
	}
	for flag, bit := range []uint32{FlagFastForward, FlagFenced, FlagExpired, FlagBroken, FlagFromStart, FlagFromEnd} {
		require.EqualValues(t, 1<<flag, bit)
	}
}

func TestTheBytesOfAHoldAreForEver(t *testing.T) {
	hold := Hold{Name: "backup", Owner: "ops", MaxBytes: 1 << 40, MaxAge: 1 << 20, Pointer: []byte("p1")}
	data := AppendHold(nil, hold)
	require.Equal(t, "0000000000010000"+"0000100000000000"+"0600"+"0300"+"02000000"+hex.EncodeToString([]byte("backupopsp1")), hex.EncodeToString(data))
	got, rest, err := ParseHold(data)
	require.NoError(t, err)
	require.Equal(t, hold, got)
	require.Empty(t, rest)

	require.Equal(t, data, AppendHoldCommand(nil, hold), "as releases before the principal read it")
	hold.Principal = "user/alice"
	command := AppendHoldCommand(nil, hold)
	require.Equal(t, "0a00"+hex.EncodeToString([]byte("user/alice")), hex.EncodeToString(command[len(data):]))
	got, err = ParseHoldCommand(command)
	require.NoError(t, err)
	require.Equal(t, hold, got)
	for n := range command {
		if _, err := ParseHoldCommand(command[:n]); n != len(data) {
			require.ErrorIs(t, err, ErrEntry, "%d bytes", n)
		}
	}
	_, err = ParseHoldCommand(append(command, 0))
	require.ErrorIs(t, err, ErrEntry)
	hold.Principal = strings.Repeat("u", MaxHoldPrincipal+1)
	_, err = ParseHoldCommand(AppendHoldCommand(nil, hold))
	require.ErrorIs(t, err, ErrEntry)
}

func TestACommandThatIsCutShortOrUnknownStopsTheReader(t *testing.T) {
	whole := AppendCommand(nil, sampleCommand)
	for n := range commandSize {
		_, err := ParseCommand(whole[:n])
		require.ErrorIs(t, err, ErrEntry)
	}
	for _, kind := range []CommandKind{0, ReleaseWriter + 1, 34, 64, 1<<16 - 1} {
		unknown := sampleCommand
		unknown.Kind = kind
		_, err := ParseCommand(AppendCommand(nil, unknown))
		require.ErrorIs(t, err, ErrEntry)
	}
}
