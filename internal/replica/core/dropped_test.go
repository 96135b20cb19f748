package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// A request may be in several proposals. If Raft takes the first and drops the second,
// the request is neither done nor not done.
func TestARequestOfWhichRaftTookAPartIsNotDecidedAgain(t *testing.T) {
	var answers []Answered
	core := newBench(t).core
	request := func() *Request {
		return &Request{Append: &sequence.Append{}, Done: func(sequence.Answer) {}}
	}
	whole, part, behind := request(), request(), request()
	core.deferAnswers([]sequence.Answer{
		{First: sequence.Run{First: 10, Count: 2}, RestsOn: 4},
		{First: sequence.Run{First: 12, Count: 5}, RestsOn: 5}, // 12 to 14 are in proposal 4
		{First: sequence.Run{First: 17, Count: 1}, RestsOn: 5},
	}, []*Request{whole, part, behind}, sequence.Proposal{Number: 5, First: 15})
	answers = core.out.Answers
	require.Len(t, answers, 2)
	require.Nil(t, answers[0].Answer.Refusal)
	require.Equal(t, record.OutcomeUnknown, answers[1].Answer.Refusal.Reason)
	require.Equal(t, []*Request{behind}, core.queue)
}
