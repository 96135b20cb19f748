package store

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/test/disk/faultdisk"
)

// trimmed is a log of several segments of which the first have been trimmed.
func trimmed(t *testing.T) *Store {
	t.Helper()
	o := Options{SegmentBytes: 64 << 10, Manual: true, Rand: rand.NewChaCha8([32]byte{1}), Logger: slog.New(slog.DiscardHandler)}
	s, err := Create(faultdisk.New(1), "log", o, segment.Bootstrap{Index: 1, Term: 1})
	require.NoError(t, err)
	payload := make([]byte, 20<<10)
	for i := uint64(2); i < 22; i++ {
		f := segment.Entry{Index: i, Term: 1 + i/8, First: record.Offset(i - 2), Count: 1, Payload: payload, CRC: record.Checksum(payload)}
		hard := segment.HardState{Term: f.Term, Commit: i - 1}
		result, err := s.Write([]segment.Write{{Entries: []segment.Entry{f}, HardState: &hard, MustSync: true}})
		require.NoError(t, err)
		for _, first := range result.Rolled {
			require.NoError(t, s.SaveSnapshot(first-1, 1+(first-1)/8, nil))
		}
	}
	_, err = s.Trim(10)
	require.NoError(t, err)
	require.Greater(t, len(s.live), 3)
	require.Greater(t, s.live[0].First, uint64(2))
	return s
}

func TestABrokenInvariantIsNamed(t *testing.T) {
	s := trimmed(t)
	require.NoError(t, s.CheckInvariants())
	require.NoError(t, s.Close())
	for name, c := range map[string]struct {
		harm func(s *Store)
		says string
	}{
		"a segment is missing":          {func(s *Store) { s.segments = append(s.segments[:1], s.segments[2:]...) }, "is followed by segment"},
		"a live segment is left out":    {func(s *Store) { s.live = append(s.live[:1:1], s.live[2:]...) }, "but the next begins at"},
		"live segments are out of turn": {func(s *Store) { s.live[0], s.live[1] = s.live[1], s.live[0] }, "not behind the previous live segment"},
		"one that left still counts":    {func(s *Store) { s.live[1].gone = true }, "has left the log"},
		"entries are missing at an end": {func(s *Store) { s.live[1].end-- }, "but the next begins at"},
		"an index is too short": {func(s *Store) {
			require.NoError(t, s.useSegment(s.live[1]))
			s.live[1].index.Next--
		}, "its index up to"},
		"an offset falls": {func(s *Store) {
			require.NoError(t, s.useSegment(s.live[1]))
			s.live[2].header.Start--
		}, "the one before ends at"},
		"a term falls":                     {func(s *Store) { s.live[2].header.TermBefore = 0 }, "behind one that begins at"},
		"a file is open without users":     {func(s *Store) { s.live[1].file = s.active.file }, "has 0 users, but its file is open: true"},
		"a file is closed below its users": {func(s *Store) { s.live[1].users++ }, "has 1 users, but its file is open: false"},
		"an index is kept without users":   {func(s *Store) { s.live[1].index = s.active.index }, "has no users, but an index"},
		"the begin is below the first":     {func(s *Store) { s.Begin.ordinal-- }, "the begin mark names segment"},
		"the begin is beyond the last":     {func(s *Store) { s.Begin.ordinal += 100 }, "the begin mark names segment"},
		"the first header is not known":    {func(s *Store) { s.live[0].header = nil }, "is not in memory"},
		"another segment is written to": {func(s *Store) {
			s.active = s.live[1]
			require.NoError(t, s.useSegment(s.active))
		}, "but is not the newest"},
		"frames are left":                  {func(s *Store) { s.staged = append(s.staged, stagedFrame{}) }, "1 frames are staged"},
		"entries beyond the end":           {func(s *Store) { s.writer.position -= 8 }, "the next frame goes to byte"},
		"synced beyond the end":            {func(s *Store) { s.synced += 8 }, "the next frame goes to byte"},
		"durable beyond what is synced":    {func(s *Store) { s.durable.Position += 8 }, "is durable up to byte"},
		"the watermark beyond the end":     {func(s *Store) { s.watermark.Written.Position = s.synced + 8 }, "the durable watermark is"},
		"the watermark of another segment": {func(s *Store) { s.watermark.Written.Ordinal++ }, "the durable watermark is"},
		"the watermark of a later term":    {func(s *Store) { s.watermark.Written.Term++ }, "the durable watermark is"},
		"a snapshot of what is not there":  {func(s *Store) { s.kept = append(s.kept, 100) }, "there are snapshots of entries"},
		"snapshots are out of turn":        {func(s *Store) { s.kept[0], s.kept[1] = s.kept[1], s.kept[0] }, "there are snapshots of entries"},
		"no snapshot to begin with":        {func(s *Store) { s.kept = []uint64{1} }, "the newest snapshot is of entry 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := trimmed(t)
			c.harm(s)
			require.ErrorContains(t, s.CheckInvariants(), c.says)
		})
	}
}

func TestALogStopsAtABrokenInvariant(t *testing.T) {
	s := trimmed(t)
	s.Begin.ordinal += 100
	_, err := s.Trim(20)
	require.ErrorContains(t, err, "an invariant of the log does not hold, which is a bug: the begin mark names segment")
	_, err = s.Write(nil)
	require.ErrorContains(t, err, "an invariant of the log does not hold")
}
