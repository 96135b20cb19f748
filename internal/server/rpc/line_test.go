package rpc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
)

func joined(t *testing.T, l *Line[int], values ...int) []*Place[int] {
	t.Helper()
	var places []*Place[int]
	for _, v := range values {
		p := &Place[int]{Value: v}
		require.True(t, l.AwaitRoom())
		require.True(t, l.Join(p))
		places = append(places, p)
	}
	return places
}

func TestAnswersAreTakenInTheOrderOfRequests(t *testing.T) {
	t.Parallel()
	const requests, limit = 1000, 16
	l := NewLine[int](limit)
	unanswered := make(chan *Place[int])
	var workers sync.WaitGroup
	workers.Go(func() {
		for v := range requests {
			p := &Place[int]{Value: v}
			l.AwaitRoom()
			l.Join(p)
			unanswered <- p
		}
		l.Close()
		close(unanswered)
	})
	workers.Go(func() {
		// As many as the line holds, so that the first is always among them.
		window := make([]*Place[int], 0, limit)
		answer := func() {
			rand.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
			for _, p := range window {
				l.Answer(p)
			}
			window = window[:0]
		}
		for p := range unanswered {
			if window = append(window, p); len(window) == limit {
				answer()
			}
		}
		answer()
	})
	for want := range requests {
		v, ok := l.Next()
		require.True(t, ok)
		require.Equal(t, want, v)
	}
	_, ok := l.Next()
	require.False(t, ok)
	workers.Wait()
}

func TestAFullLineLetsOneMoreInForEachAnswerThatIsTaken(t *testing.T) {
	t.Parallel()
	l := NewLine[int](2)
	places := joined(t, l, 1, 2)
	room := make(chan bool)
	go func() { room <- l.AwaitRoom() }()
	l.Answer(places[0])
	select {
	case <-room:
		t.Fatal("an answer that nobody has taken made room")
	default:
	}
	_, ok := l.Next()
	require.True(t, ok)
	require.True(t, <-room)
}

func TestAClosedLineStillGivesTheAnswersOfThoseInIt(t *testing.T) {
	t.Parallel()
	l := NewLine[int](2)
	places := joined(t, l, 1, 2)
	l.Close()
	require.False(t, l.AwaitRoom())
	require.False(t, l.Join(&Place[int]{}))
	taken := make(chan int)
	go func() {
		for v, ok := l.Next(); ok; v, ok = l.Next() {
			taken <- v
		}
		close(taken)
	}()
	l.Answer(places[1])
	l.Answer(places[0])
	require.Equal(t, 1, <-taken)
	require.Equal(t, 2, <-taken)
	_, more := <-taken
	require.False(t, more)
}

func TestABrokenLineEndsAtOnceAndTakesLateAnswers(t *testing.T) {
	t.Parallel()
	l := NewLine[int](1)
	places := joined(t, l, 1)
	room, next := make(chan bool), make(chan bool)
	go func() { room <- l.AwaitRoom() }()
	go func() { _, ok := l.Next(); next <- ok }()
	l.Break()
	require.False(t, <-room)
	require.False(t, <-next)
	l.Answer(places[0])
	_, ok := l.Next()
	require.False(t, ok)
}

func TestWhatIsLeftInABrokenLineCanBeTakenOut(t *testing.T) {
	t.Parallel()
	l := NewLine[int](4)
	places := joined(t, l, 1, 2, 3)
	l.Answer(places[0])
	value, ok := l.Next()
	require.True(t, ok)
	require.Equal(t, 1, value)
	l.Break()
	require.Equal(t, []int{2, 3}, l.Rest())
	require.Empty(t, l.Rest())
	l.Answer(places[1]) // too late, and no harm
}

func TestALineIsReadyWhenItsFirstHasAnAnswer(t *testing.T) {
	t.Parallel()
	l := NewLine[int](4)
	require.False(t, l.Ready(), "nobody is in it")
	places := joined(t, l, 1, 2)
	l.Answer(places[1])
	require.False(t, l.Ready(), "the answer of the second has to wait")
	l.Answer(places[0])
	require.True(t, l.Ready())
	_, _ = l.Next()
	require.True(t, l.Ready())
	l.Break()
	require.False(t, l.Ready())
}

// A line whose client takes no answers keeps its share of the memory, and others may join.
func TestLinesShareTheMemoryForAnswers(t *testing.T) {
	t.Parallel()
	all := budget.NewShares(8 * placesStep * placeBytes)
	const limit = 1 << 10
	full := func(l *Line[int]) (joined int) {
		for ; !l.Full(); joined++ {
			require.True(t, l.Join(&Place[int]{Value: joined}))
		}
		return joined
	}
	lines := make([]*Line[int], 3)
	for i := range lines {
		lines[i] = NewLine[int](limit)
		lines[i].Within(all)
	}
	first := full(lines[0])
	require.Less(t, first, limit)
	require.GreaterOrEqual(t, first, 6*placesStep)
	require.Less(t, full(lines[1]), first, "it has to share")
	require.GreaterOrEqual(t, full(lines[2]), freePlaces, "these are always there")
	require.LessOrEqual(t, all.Used(), all.Size()*2)

	for lines[0].length > 0 {
		lines[0].Answer(lines[0].first)
		_, ok := lines[0].Next()
		require.True(t, ok)
	}
	lines[1].Break()
	lines[2].Break()
	require.Zero(t, all.Used())
}

func TestAFlusherAndTheSenderTogetherSendEveryAnswerOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const lines, requests, limit = 8, 500, 16
	var flusher Flusher
	var workers sync.WaitGroup
	var byFlusher, bySender atomic.Int64
	for range lines {
		l := NewLine[int](limit)
		var sent []int // by whoever has the line
		l.SendBy(&flusher, func(v int) bool {
			if rand.IntN(4) == 0 {
				return false
			}
			sent = append(sent, v)
			byFlusher.Add(1)
			return true
		})
		unanswered := make(chan *Place[int], limit)
		workers.Go(func() {
			for v := range requests {
				p := &Place[int]{Value: v}
				l.AwaitRoom()
				l.Join(p)
				unanswered <- p
			}
			close(unanswered)
		})
		workers.Go(func() {
			for p := range unanswered {
				l.Answer(p)
			}
			l.Close()
		})
		workers.Go(func() {
			for v, ok := l.Next(); ok; v, ok = l.Next() {
				sent = append(sent, v)
				bySender.Add(1)
			}
			require.Len(t, sent, requests)
			for want, v := range sent {
				require.Equal(t, want, v)
			}
		})
	}
	workers.Wait()
	require.Positive(t, byFlusher.Load())
	require.Positive(t, bySender.Load())
}

func TestALineThatIsBrokenWhileItIsFlushedKeepsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	l := NewLine[int](4)
	var flusher Flusher
	trying, tried := make(chan struct{}), make(chan struct{})
	l.SendBy(&flusher, func(int) bool {
		close(trying)
		<-tried
		return false
	})
	places := joined(t, l, 1, 2)
	l.Answer(places[0])
	<-trying
	l.Answer(places[1])
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, ok := l.Next()
		require.False(t, ok)
	}()
	l.Break()
	select {
	case <-ended:
		t.Fatal("the sender has ended while the flusher still sends")
	default:
	}
	close(tried)
	<-ended
	require.Equal(t, []int{1, 2}, l.Rest())
}
