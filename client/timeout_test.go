package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unstarted is a producer without its goroutines, with a request for each time since which it has waited.
func unstarted(t *testing.T, timeout time.Duration, waited ...time.Duration) (*Producer, *watch) {
	t.Helper()
	c, err := Dial([]string{"127.0.0.1:1"})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	o := defaultProducerOptions()
	o.timeout = timeout
	p := newProducer(c, "orders", o)
	t.Cleanup(p.end)
	for _, since := range waited {
		r := p.backlog.newRequest()
		r.accepted = time.Now().Add(-since)
		p.backlog.queue = append(p.backlog.queue, r)
		p.backlog.closeBatch(r)
		p.backlog.window.sent++
	}
	return p, &watch{p.job, p.backlog, p.session, p.supervisor.round}
}

// Between two rounds the log is asked for outcomes. What is too old then is settled before the
// next round begins, with which only fresh records would fail.
func TestARecordThatIsTooOldBetweenRoundsEndsNoRound(t *testing.T) {
	t.Parallel()
	p, w := unstarted(t, time.Second, time.Minute)
	w.timeOut(time.Now())
	require.Nil(t, p.supervisor.round.interruption.err)

	_, cancel := p.supervisor.round.begin()
	defer cancel()
	w.timeOut(time.Now())
	require.ErrorIs(t, p.supervisor.round.interruption.err, ErrTimedOut)
}

func TestAnAnswerThatComesWhileItsRecordTimesOutSparesTheOthers(t *testing.T) {
	t.Parallel()
	p, w := unstarted(t, time.Second, time.Minute, 0)
	old, fresh := p.backlog.window.flight[0], p.backlog.window.flight[1]
	_, cancel := p.supervisor.round.begin()
	defer cancel()
	w.timeOut(time.Now())
	p.supervisor.receiver.settle(old, 7, nil)
	p.supervisor.repair(p.supervisor.round.end(), nil)
	require.Equal(t, []*request{fresh}, p.backlog.window.flight)
	require.Equal(t, MaybeDone, fresh.outcome, "it is sent again")

	fresh.accepted = time.Now().Add(-time.Minute)
	_, cancel = p.supervisor.round.begin()
	defer cancel()
	w.timeOut(time.Now())
	p.supervisor.repair(p.supervisor.round.end(), nil)
	require.ErrorIs(t, fresh.err, ErrTimedOut)
}
