package rpc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

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
