package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var appends = Share{Metered: Metered{"user/bob", "append_bytes"}, Of: "user/bob", PerSecond: 1000}

func of(s Share, amount int64) []Share {
	s.Amount = amount
	return []Share{s}
}

func TestWhoTakesMoreThanTheRateIsKeptToIt(t *testing.T) {
	m := NewMeters()
	began := time.Unix(1_000_000, 0)
	now, taken := began, int64(0)
	for now.Sub(began) < time.Minute {
		wait, _ := m.Take(now, of(appends, 300), false)
		if wait == 0 {
			taken += 300
			continue
		}
		now = now.Add(wait)
	}
	require.InDelta(t, 61_000, taken, 600, "the rate of a minute, and of a second at once")
	wait, _ := m.Take(now, of(Share{Metered: Metered{"user/carol", "append_bytes"}, PerSecond: 1000}, 300), false)
	require.Zero(t, wait, "another holder does not wait")
}

func TestALargeAmountIsTakenAtOnceAndOwed(t *testing.T) {
	m := NewMeters()
	now := time.Unix(1_000_000, 0)
	wait, _ := m.Take(now, of(appends, 10_000), false)
	require.Zero(t, wait)
	wait, owed := m.Take(now, of(appends, 1), false)
	require.Equal(t, 9*time.Second, wait)
	require.Equal(t, "user/bob", owed.Of)
	wait, _ = m.Take(now.Add(9*time.Second-time.Millisecond), of(appends, 1), false)
	require.Equal(t, time.Millisecond, wait.Round(time.Microsecond))
	wait, _ = m.Take(now.Add(9*time.Second), of(appends, 1), false)
	require.Zero(t, wait)
}

// A higher rate is kept at once: what is owed is an amount.
func TestARateThatIsRaisedShortensTheWait(t *testing.T) {
	m := NewMeters()
	now := time.Unix(1_000_000, 0)
	m.Add(now, of(appends, 101_000))
	faster := appends
	faster.PerSecond = 100_000
	wait, _ := m.Owes(now, of(appends, 0))
	require.Equal(t, 100*time.Second, wait)
	wait, _ = m.Owes(now, of(faster, 0))
	require.Equal(t, 10*time.Millisecond, wait.Round(time.Microsecond))
}

// If one of several limits is used up, nothing is taken of the others.
func TestAllSharesAreTakenOrNone(t *testing.T) {
	m := NewMeters()
	now := time.Unix(1_000_000, 0)
	requests := Share{Metered: Metered{"log/orders", "requests"}, Of: "log/*", PerSecond: 10, Amount: 1}
	m.Add(now, of(appends, 5000))
	both := append(of(appends, 10), requests)
	wait, owed := m.Take(now, both, false)
	require.Equal(t, 4*time.Second, wait)
	require.Equal(t, appends.Metered, owed.Metered)
	require.Zero(t, m.Sums(func(string) bool { return true })[Metered{"log/*", "requests"}].Taken)
}

func TestUsesNameFirstWhoWaitsLongest(t *testing.T) {
	m := NewMeters()
	now := time.Unix(1_000_000, 0)
	carol := Share{Metered: Metered{"user/carol", "append_bytes"}, Of: "*", PerSecond: 1000}
	m.Add(now, of(carol, 3000))
	m.Add(now, of(appends, 9000))
	m.Waits(carol, 2)
	now = now.Add(time.Second)
	require.Equal(t, []Consumption{
		{appends.Metered, "user/bob", 9000, 7 * time.Second, 0},
		{carol.Metered, "*", 3000, time.Second, 2},
	}, m.Uses(now))
	require.Len(t, m.Uses(now.Add(time.Hour)), 1, "who waits is named, who takes nothing is not")
}

func TestHoldersBeyondTheLimitShareAMeter(t *testing.T) {
	m := NewMeters()
	now := time.Unix(1_000_000, 0)
	for i := range 3 * MaxMeters {
		s := appends
		s.Holder = time.Duration(i).String()
		m.Add(now, of(s, 2))
	}
	require.LessOrEqual(t, len(m.of), MaxMeters+1)
	wait, _ := m.Owes(now, of(Share{Metered: Metered{"late", "append_bytes"}, PerSecond: 1}, 0))
	require.NotZero(t, wait)
	m.Add(now.Add(time.Hour), of(appends, 1))
	require.Less(t, len(m.of), 10, "those who took nothing for long are forgotten")
}
