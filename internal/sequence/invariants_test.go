package sequence

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokenSequencerIsNamed(t *testing.T) {
	for claim, breakIt := range map[string]func(s *Sequencer){
		"2 of 1 proposals are sealed":           func(s *Sequencer) { s.sealed = 2 },
		"before what has committed":             func(s *Sequencer) { s.table.log.end = 9 },
		"does not lead":                         func(s *Sequencer) { s.leading = false },
		"not among the oldest and sealed":       func(s *Sequencer) { (*s.proposals.at(0)).sealed = true },
		"proposal 1 begins at 4, the one":       func(s *Sequencer) { (*s.proposals.at(0)).first = 4 },
		"1 changes of proposals are in no view": func(s *Sequencer) { clear(s.views) },
	} {
		s := New(NewTable())
		s.StartLeading(1, 0)
		require.Nil(t, s.Append(request(t, Append{Session: 1 << 40, Implicit: true})).Refusal)
		require.NoError(t, s.CheckInvariants())
		breakIt(s)
		require.ErrorContains(t, s.CheckInvariants(), claim)
	}
}
