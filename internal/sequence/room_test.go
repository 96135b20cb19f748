package sequence

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
)

// A program that was restarted ends its epoch to learn which of its records are in the log.
// That has to work where disks take only trims: its log may stay full for long.
func TestAFullDiskLetsAProgramThatWasRestartedResume(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	open := func(session uint64) Answer {
		return s.Command(record.Command{Kind: record.OpenSession, Session: record.SessionID(session), Lease: 1000})
	}
	require.Nil(t, open(7).Refusal)
	opened := s.Seal(1000)
	require.NoError(t, s.Committed(opened[0].Data, opened[0].CRC))
	s.SetRoom(RoomForTrims)
	ended := s.Command(record.Command{Kind: record.EndEpoch, Session: 7})
	require.Nil(t, ended.Refusal)
	require.EqualValues(t, 1, ended.Epoch)
	entries := s.Seal(1000)
	require.Len(t, entries, 1)
	require.Equal(t, RoomForTrims, EntryRoom(entries[0].Data), "a follower takes it, too")
	require.Equal(t, record.Full, open(8).Refusal.Reason)
}
