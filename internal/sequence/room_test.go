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
	opened := s.Propose(1000)
	require.NoError(t, s.Committed(opened[0].Data, opened[0].CRC))
	s.SetRoom(RoomForTrims)
	ended := s.Command(record.Command{Kind: record.EndEpoch, Session: 7})
	require.Nil(t, ended.Refusal)
	require.EqualValues(t, 1, ended.Epoch)
	entries := s.Propose(1000)
	require.Len(t, entries, 1)
	require.Equal(t, RoomForTrims, EntryRoom(entries[0].Data), "a follower takes it, too")
	require.Equal(t, record.Full, open(8).Refusal.Reason)
}

// What is kept for trims is not taken by who ends epoch after epoch, as anybody who appends may.
func TestAFullDiskTakesFewEpochsWithoutRecords(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	commit := func() (entries int) {
		for _, d := range s.Propose(1000) {
			require.NoError(t, s.Committed(d.Data, d.CRC))
			entries++
		}
		return entries
	}
	for id := range record.SessionID(2) {
		require.Nil(t, s.Command(record.Command{Kind: record.OpenSession, Session: 7 + id, Lease: 1000}).Refusal)
	}
	commit()
	write := func(session record.SessionID, epoch record.Epoch) {
		a := measured(&Append{ExpectedEnd: NoExpectation, Session: session, Epoch: epoch, Batches: []record.Batch{batchOf(t, 1, 10)}})
		require.Nil(t, s.Append(a).Refusal)
		commit()
	}
	write(8, 0)
	ended := func() (epochs int) {
		for epoch := record.Epoch(0); ; epoch++ {
			a := s.Command(record.Command{Kind: record.EndEpoch, Session: 7, Epoch: epoch})
			if a.Refusal != nil {
				require.Equal(t, record.Full, a.Refusal.Reason)
				require.Zero(t, commit())
				return epochs
			}
			epochs += commit()
			require.Less(t, epochs, 2*maxEmptyEpochs)
		}
	}
	s.SetRoom(RoomForTrims)
	require.Equal(t, maxEmptyEpochs, ended())
	require.Nil(t, s.Command(record.Command{Kind: record.EndEpoch, Session: 8}).Refusal, "this one has records")
	require.Equal(t, 1, commit())
	require.Equal(t, record.Full, s.Command(record.Command{Kind: record.EndEpoch, Session: 8, Epoch: 1}).Refusal.Reason)
	s.SetRoom(RoomForCommands)
	require.Nil(t, s.Command(record.Command{Kind: record.EndEpoch, Session: 8, Epoch: 1}).Refusal)
	commit()
	s.SetRoom(RoomForTrims)
	require.Equal(t, maxEmptyEpochs, ended(), "there was room meanwhile")
}

// Who trims where another replica has room, and is about to lead, trims for nothing.
func TestAFullDiskOfTheLeaderAloneSaysToTryAgain(t *testing.T) {
	s := New(NewTable())
	s.StartLeading(1, 0)
	s.SetRoom(RoomForTrims)
	seal := func() *record.Refusal { return s.Command(record.Command{Kind: record.Seal}).Refusal }
	appended := func() *record.Refusal {
		return s.Append(measured(&Append{ExpectedEnd: NoExpectation, Batches: []record.Batch{batchOf(t, 1, 10)}})).Refusal
	}
	for _, refused := range []func() *record.Refusal{seal, appended} {
		s.SetRoomElsewhere(false)
		require.Equal(t, record.Full, refused().Reason)
		require.Contains(t, refused().Error(), "trim or free disk space")
		s.SetRoomElsewhere(true)
		require.Equal(t, record.Full, refused().Reason)
		require.NotContains(t, refused().Error(), "trim")
	}
}
