package sequence

import "strandline.dev/internal/record"

// SetFull tells whether there is no room for more records. Duplicates are
// answered and commands taken all the same: a trim brings the room back.
func (s *Sequencer) SetFull(full bool) { s.full = full }

// Epoch returns the session's newest epoch, counting what is in flight, and 0
// for a session that is not known.
func (s *Sequencer) Epoch(id record.SessionID) record.Epoch {
	st, _ := s.session(id)
	return st.epoch
}
