package lagging

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// catching is followers who take all they may have, on a node that takes appends.
type catching struct {
	pace    Pace
	now     time.Duration
	appends Appends
	// took is what an append takes while so many bytes a second are read for followers.
	took func(rate float64) float64
	read float64 // in the last second, nearly
}

// step is a piece of a follower. It returns its bytes.
func (c *catching) step(f Follower, need Need, intake int64) int {
	c.look()
	piece, wait := c.pace.Hold(c.now, f, need, FeedBytes, intake)
	c.pass(wait + time.Millisecond)
	c.pace.Took(f, piece)
	return piece
}

func (c *catching) look() {
	if c.pace.Due(c.now) {
		c.pace.Look(c.now, c.appends)
	}
}

// pass lets time pass, with an append each millisecond.
func (c *catching) pass(d time.Duration) {
	for range d / time.Millisecond {
		c.appends.Count++
		c.appends.Seconds += c.took(c.read)
	}
	c.now += d
}

// catchUp steps for a time, and returns the bytes a second.
func (c *catching) catchUp(d time.Duration, f Follower, need Need, intake int64) float64 {
	begun, bytes := c.now, 0
	second, before := c.now, 0
	for c.now < begun+d {
		bytes += c.step(f, need, intake)
		if since := c.now - second; since >= 50*time.Millisecond {
			c.read = float64(bytes-before) / since.Seconds()
			second, before = c.now, bytes
		}
	}
	return float64(bytes) / (c.now - begun).Seconds()
}

func always(seconds float64) func(float64) float64 { return func(float64) float64 { return seconds } }

var someone = Follower{Log: 1, Replica: 4}

// began is a node that has taken appends for a while, and whose followers have none of their
// burst left.
func began(took func(rate float64) float64) *catching {
	c := &catching{took: took}
	c.pass(time.Second)
	c.look()
	c.pass(time.Second)
	c.look()
	c.pace.Hold(c.now, someone, Someday, FeedBytes, 0)
	c.pace.Took(someone, leastBurst)
	return c
}

func TestAPaceRisesWhileAppendsTakeNoLonger(t *testing.T) {
	c := began(always(0.001))
	first := c.catchUp(200*time.Millisecond, someone, Someday, 0)
	require.InEpsilon(t, LeastRate, first, 0.2)
	require.Greater(t, c.catchUp(10*time.Second, someone, Someday, 0), 10.0*LeastRate)
}

func TestAPaceIsHalvedUntilAppendsTakeNoLonger(t *testing.T) {
	// A disk that bears 64 MiB/s and becomes slow beyond.
	c := began(func(rate float64) float64 { return 0.001 + max(0, rate-64<<20)/(64<<20)*0.01 })
	c.catchUp(10*time.Second, someone, Someday, 0)
	rate := c.catchUp(10*time.Second, someone, Someday, 0)
	require.Greater(t, rate, 1.0*(24<<20))
	require.Less(t, rate, 1.0*(80<<20))
}

func TestAPaceIsNeverLessThanWhatLetsAFollowerCatchUp(t *testing.T) {
	c := began(func(rate float64) float64 {
		if rate > 0 {
			return 1
		}
		return 0.001
	})
	c.read = 1
	require.InEpsilon(t, LeastRate, c.catchUp(20*time.Second, someone, Someday, 0), 0.1)
	const intake = 50 << 20
	c.catchUp(5*time.Second, someone, Someday, intake) // the burst for what the log takes
	require.InEpsilon(t, LeastRate+intake, c.catchUp(20*time.Second, someone, Someday, intake), 0.1)
}

func TestAFollowerThatIsNeededIsNotPaced(t *testing.T) {
	c := began(always(1))
	for range 100 {
		piece, wait := c.pace.Hold(c.now, someone, Now, FeedBytes, 0)
		require.Zero(t, wait)
		require.Equal(t, FeedBytes, piece)
		c.pace.Took(someone, piece)
	}
}

// What was read while appends waited for a follower is no debt: it would get nothing for minutes,
// and nothing either if appends wait for it again.
func TestAFollowerThatWasNeededContinuesAtThePace(t *testing.T) {
	c := began(always(1))
	for range 1000 {
		piece, _ := c.pace.Hold(c.now, someone, Now, FeedBytes, 0)
		c.pace.Took(someone, piece)
	}
	_, wait := c.pace.Hold(c.now, someone, Soon, FeedBytes, 0)
	require.LessOrEqual(t, wait, time.Second)
}

func TestAVoterGetsMoreThanAReadReplica(t *testing.T) {
	slow := func(rate float64) float64 { return 0.001 + rate }
	reader, voter := began(slow), began(slow)
	reader.catchUp(2*time.Second, someone, Someday, 0)
	voter.catchUp(2*time.Second, someone, Soon, 0)
	require.InEpsilon(t, soonFactor*reader.catchUp(10*time.Second, someone, Someday, 0),
		voter.catchUp(10*time.Second, someone, Soon, 0), 0.1)
}

func TestAFollowerThatLacksLittleIsNotHeldBack(t *testing.T) {
	c := &catching{took: always(0.001)}
	const intake = 20 << 20
	for got := 0; got < intake; { // it was away for a second
		c.look()
		piece, wait := c.pace.Hold(c.now, someone, Someday, FeedBytes, intake)
		require.Zero(t, wait)
		c.pace.Took(someone, piece)
		got += piece
	}
}

func TestFollowersShareThePace(t *testing.T) {
	c := began(func(rate float64) float64 { return 0.001 + rate })
	next := map[Follower]time.Duration{}
	for i := range uint64(nodeBurst / leastBurst) {
		f := Follower{Log: i}
		next[f] = c.now
		c.pace.Hold(c.now, f, Someday, FeedBytes, 0)
		c.pace.Took(f, leastBurst)
	}
	bytes, begun := 0, c.now
	for c.now < begun+20*time.Second {
		c.pass(10 * time.Millisecond)
		c.read = 1
		c.look()
		for f, at := range next {
			if c.now < at {
				continue
			}
			piece, wait := c.pace.Hold(c.now, f, Someday, FeedBytes, 0)
			next[f] = c.now + wait
			c.pace.Took(f, piece)
			bytes += piece
		}
	}
	require.InEpsilon(t, LeastRate, float64(bytes)/(c.now-begun).Seconds(), 0.25)
}

// A node that comes back lacks some MiB of each of a thousand logs.
func TestWhatFollowersGetAtOnceIsBoundedOverTheNode(t *testing.T) {
	const logs = 1000
	c := &catching{took: always(0.001)}
	atOnce := func(log uint64) (bytes int) {
		for {
			piece, wait := c.pace.Hold(c.now, Follower{Log: log}, Someday, FeedBytes, 0)
			if wait > 0 {
				return bytes
			}
			c.pace.Took(Follower{Log: log}, piece)
			bytes += piece
		}
	}
	bytes := 0
	for i := range uint64(logs) {
		got := atOnce(i)
		require.Positive(t, got, "a little is never held back")
		bytes += got
	}
	require.Greater(t, bytes, nodeBurst)
	require.Less(t, bytes, nodeBurst+logs*2*leastPiece)
	c.pass(nodeBurst / LeastRate * time.Second)
	require.GreaterOrEqual(t, atOnce(logs), leastBurst)
}

// A follower of a log with large entries is read for less often than once a second.
func TestAPaceRisesWithLargeEntriesToo(t *testing.T) {
	const entry = 64 << 20
	c := began(always(0.001))
	c.pace.Took(someone, entry)
	begun, bytes := c.now, 0
	for c.now < begun+2*time.Minute {
		c.look()
		_, wait := c.pace.Hold(c.now, someone, Someday, FeedBytes, 0)
		c.pass(min(wait, time.Second) + time.Millisecond)
		if wait <= time.Second {
			c.pace.Took(someone, entry)
			bytes += entry
		}
	}
	require.Greater(t, float64(bytes)/(c.now-begun).Seconds(), 3.0*LeastRate)
}

func TestAFollowerThatIsGoneIsForgotten(t *testing.T) {
	c := began(always(0.001))
	for i := range uint64(1000) {
		c.pace.Hold(c.now, Follower{Log: i}, Someday, 1, 0)
		c.pass(time.Second)
	}
	require.Less(t, len(c.pace.followers), 20)
}
