package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

const leaseMillis = 1000

// claimant is a program that asked for the writer lease.
type claimant struct {
	request *WriterRequest
	answers []sequence.Answer
}

// lease lets a program ask for the writer lease at a replica.
func (c *trio) lease(id uint64, name, whose string, wait bool) *claimant {
	return c.leaseFor(leaseMillis, id, name, whose, wait)
}

// leaseFor is lease for a number of milliseconds.
func (c *trio) leaseFor(millis uint32, id uint64, name, whose string, wait bool) *claimant {
	p := &claimant{}
	p.request = &WriterRequest{Writer: record.Writer{Name: name, Lease: millis}, Whose: whose, Wait: wait, Done: func(a sequence.Answer) { p.answers = append(p.answers, a) }}
	c.all[id].core.SetNow(c.nowOf(c.all[id]))
	c.all[id].core.Writers.Lease(p.request)
	c.settle()
	return p
}

// term is what the program was granted; 0: nothing yet.
func (p *claimant) term(t *testing.T) record.WriterTerm {
	t.Helper()
	if len(p.answers) == 0 {
		return 0
	}
	require.Len(t, p.answers, 1)
	require.Nil(t, p.answers[0].Refusal)
	require.NotZero(t, p.answers[0].WriterTerm)
	return p.answers[0].WriterTerm
}

func (c *trio) releaseWriter(id uint64, term record.WriterTerm, to string) (answer sequence.Answer) {
	c.all[id].core.Writers.Release(term, to, func(a sequence.Answer) { answer = a })
	c.settle()
	return answer
}

func (c *trio) keepWriter(id uint64, term record.WriterTerm) (answer sequence.Answer) {
	c.all[id].core.SetNow(c.nowOf(c.all[id]))
	c.all[id].core.Writers.Keep(term, func(a sequence.Answer) { answer = a })
	c.settle()
	return answer
}

func TestTheNextInLineGetsTheLeaseOfASilentHolderAndAtOnceAfterARelease(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	first := c.lease(l, "first", "", true)
	require.EqualValues(t, 1, first.term(t))
	second, third := c.lease(l, "second", "", true), c.lease(l, "third", "", true)
	for range 3 * leaseMillis / TickMillis {
		c.tick()
		require.Nil(t, c.keepWriter(l, 1).Refusal)
	}
	require.Zero(t, second.term(t), "the holder is alive")
	require.Equal(t, 2, c.all[l].core.Writers.State().Waiting)

	ticks := 0
	for ; second.term(t) == 0; ticks++ {
		c.tick()
	}
	require.GreaterOrEqual(t, ticks*TickMillis, leaseMillis)
	require.LessOrEqual(t, ticks*TickMillis, leaseMillis*3/2)
	require.EqualValues(t, 2, second.term(t))
	require.Equal(t, record.Fenced, c.keepWriter(l, 1).Refusal.Reason)
	require.Equal(t, record.Fenced, c.releaseWriter(l, 1, "").Refusal.Reason)
	require.Zero(t, third.term(t))

	require.Nil(t, c.releaseWriter(l, 2, "").Refusal)
	require.EqualValues(t, 3, third.term(t), "no tick has passed")
	for id := range c.all {
		c.tick()
		holder, held := c.all[id].core.Group.storage.table.Holder()
		require.True(t, held)
		require.Equal(t, "third", holder.Name, "replica %d", id)
	}
}

func TestAWriterLeaseIsHandedToTheOneThatIsNamed(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	second, third := c.lease(l, "second", "", true), c.lease(l, "third", "", true)
	require.Equal(t, record.Precondition, c.releaseWriter(l, 1, "nobody").Refusal.Reason)
	require.Nil(t, c.keepWriter(l, 1).Refusal, "nothing has happened")
	require.Nil(t, c.releaseWriter(l, 1, "third").Refusal)
	require.EqualValues(t, 2, third.term(t))
	require.Zero(t, second.term(t))
	require.Nil(t, c.releaseWriter(l, 2, "").Refusal)
	require.EqualValues(t, 3, second.term(t))
}

func TestAHandoverOfAWriterLeaseThatHasEndedChangesNothing(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	second, third, fourth := c.lease(l, "second", "", true), c.lease(l, "third", "", true), c.lease(l, "fourth", "", true)
	require.Nil(t, c.releaseWriter(l, 1, "").Refusal)
	require.EqualValues(t, 2, second.term(t))
	require.Equal(t, record.Fenced, c.releaseWriter(l, 1, "fourth").Refusal.Reason)
	require.Nil(t, c.releaseWriter(l, 2, "").Refusal)
	require.EqualValues(t, 3, third.term(t), "the line is as before")
	require.Nil(t, c.releaseWriter(l, 3, "fourth").Refusal)
	require.EqualValues(t, 4, fourth.term(t))
	require.Equal(t, record.Fenced, c.releaseWriter(l, 3, "fourth").Refusal.Reason, "repeated, it says that the lease has ended")
}

// They wait in the queue of the appends.
func TestAReleaseOfAWriterLeaseIsRefusedWhileTheQueueIsFull(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	of := c.all[l].core
	of.proposals.limits.Queued = 10
	of.Append(&Request{Append: values(t, "larger than that"), Done: func(sequence.Answer) {}})
	queued := len(of.proposer.queue)
	answer := c.releaseWriter(l, 1, "")
	require.NotNil(t, answer.Refusal)
	require.Equal(t, record.Busy, answer.Refusal.Reason)
	require.Equal(t, 1, queued)
	require.Nil(t, c.releaseWriter(l, 1, "").Refusal, "it is empty again")
}

func TestALeaseWhoseCallerHasLeftIsReleasedAlthoughTheQueueIsFull(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	next := c.lease(l, "second", "", true)
	of := c.all[l].core
	of.proposals.limits.Queued = 10
	of.Append(&Request{Append: values(t, "larger than that"), Done: func(sequence.Answer) {}})
	require.NotNil(t, of.proposer.full())
	of.Writers.Release(1, "", nil)
	c.settle()
	require.EqualValues(t, 2, next.term(t))
}

func TestAReleaseOfAWriterLeaseIsForTheNextInLineAndNotForTheNameOfTheHolder(t *testing.T) {
	for _, to := range []string{"", "third"} {
		c := newTrio(t, 1)
		l := c.leader()
		require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
		next := c.lease(l, "second", "", true)
		if to != "" {
			next = c.lease(l, to, "", true)
		}
		c.all[l].core.Writers.Release(1, to, nil)
		again := c.lease(l, "first", "", true) // restarted before the release was decided
		require.EqualValues(t, 2, next.term(t))
		require.Zero(t, again.term(t))
	}
}

func TestTheHolderOfAWriterLeaseGetsItAgainUnderItsName(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	second := c.lease(l, "second", "", true)
	require.EqualValues(t, 2, c.lease(l, "first", "", false).term(t), "as after a restart")
	require.Equal(t, record.Fenced, c.keepWriter(l, 1).Refusal.Reason)
	require.Zero(t, second.term(t))
}

func TestWhoDoesNotWaitForAWriterLeaseIsAnsweredWithoutATerm(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", false).term(t))
	second := c.lease(l, "second", "", false)
	require.Equal(t, []sequence.Answer{{}}, second.answers)
	third := c.lease(l, "third", "", true)
	c.all[l].core.Writers.Leave(third.request)
	c.settle()
	require.Equal(t, []sequence.Answer{{}}, third.answers)
	c.all[l].core.Writers.Leave(third.request)
	c.settle()
	require.Nil(t, c.releaseWriter(l, 1, "").Refusal)
	require.Len(t, third.answers, 1)
	require.Zero(t, c.all[l].core.Writers.State().Waiting)
	require.Empty(t, c.all[l].core.Writers.State().Holder.Name)
	for id := range c.all {
		if id != l {
			refused := c.lease(id, "elsewhere", "", true)
			require.Equal(t, record.NotLeader, refused.answers[0].Refusal.Reason)
		}
	}
}

func TestOnePrincipalLeavesPlacesInTheLineForTheWriterLeaseToOthers(t *testing.T) {
	c := newTrio(t, 1)
	l := c.leader()
	c.lease(l, "holder", "", true)
	for i := range MaxWaitingWriters / 2 {
		require.Empty(t, c.lease(l, fmt.Sprint("bob-", i), "user/bob", true).answers)
	}
	refused := c.lease(l, "bob-more", "user/bob", true).answers[0].Refusal
	require.Equal(t, record.Busy, refused.Reason)
	require.True(t, refused.OwnShare)
	require.Empty(t, c.lease(l, "carol", "user/carol", true).answers)
	for i := range MaxWaitingWriters/2 - 1 {
		require.Empty(t, c.lease(l, fmt.Sprint("nobody-", i), "", true).answers)
	}
	refused = c.lease(l, "dave", "user/dave", true).answers[0].Refusal
	require.Equal(t, record.Busy, refused.Reason)
	require.False(t, refused.OwnShare)
	require.Empty(t, c.lease(l, "carol", "user/carol", true).answers, "in its own place")
	require.Equal(t, MaxWaitingWriters, c.all[l].core.Writers.State().Waiting)
	require.Nil(t, c.releaseWriter(l, 1, "carol").Refusal)
	require.Equal(t, "carol", c.all[l].core.Writers.State().Holder.Name)
}

func TestALineForTheWriterLeaseEndsWithItsLeaderAndTheHolderStays(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	require.EqualValues(t, 1, c.lease(l, "first", "", true).term(t))
	second := c.lease(l, "second", "", true)
	for range leaseMillis / TickMillis / 2 {
		c.tick()
	}
	c.all[l].down = true
	next := c.leader(l)
	require.Equal(t, "first", c.all[next].core.Writers.State().Holder.Name)
	require.Greater(t, c.all[next].core.Writers.State().Left, int64(leaseMillis/2), "the lease begins again")
	require.Nil(t, c.keepWriter(next, 1).Refusal)
	c.all[l].down = false
	for len(second.answers) == 0 {
		c.tick()
	}
	require.Equal(t, record.NotLeader, second.answers[0].Refusal.Reason)
}

// Whoever watches is answered for each change, and not for renewals.
func TestAChangeOfTheHolderOfTheWriterLeaseIsWatched(t *testing.T) {
	c := newTrio(t, 1, 2, 3)
	l := c.leader()
	var seen []string
	var refused *record.Refusal
	var watch func(state *WriterState)
	watch = func(state *WriterState) {
		c.all[l].core.Writers.Watch(&WriterWatch{Seen: state, Done: func(s WriterState, r *record.Refusal) {
			if refused = r; r == nil {
				seen = append(seen, fmt.Sprint(s.Holder.Term, s.Holder.Name))
				watch(&s)
			}
		}})
	}
	watch(nil)
	c.settle()
	require.Equal(t, []string{"0"}, seen)
	c.lease(l, "a", "", true)
	c.tick()
	require.Nil(t, c.keepWriter(l, 1).Refusal)
	c.lease(l, "b", "", true)
	c.tick()
	require.Equal(t, []string{"0", "1a"}, seen)
	require.Nil(t, c.releaseWriter(l, 1, "").Refusal)
	c.tick()
	require.Nil(t, c.releaseWriter(l, 2, "").Refusal)
	c.tick()
	require.Equal(t, []string{"0", "1a", "1", "2b", "2"}, seen)
	gone := &WriterWatch{Seen: &WriterState{}, Done: func(WriterState, *record.Refusal) { t.Error("it has left") }}
	gone.Seen.Holder.Term = 2
	c.all[l].core.Writers.Watch(gone)
	c.all[l].core.Writers.Unwatch(gone)
	c.all[l].core.Lifecycle.Stop()
	c.step(l)
	require.NotNil(t, refused)
}
