package backend

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/verbs"
)

// slow is a node whose peers do not all answer at once.
type slow struct {
	Node
	answers chan verbs.ClusterStatus
}

func (s *slow) ClusterStatus(context.Context, verbs.Caller) (verbs.ClusterStatus, error) {
	return <-s.answers, nil
}

func TestClientsDoNotWaitForANodeThatDoesNotAnswer(t *testing.T) {
	s := &slow{answers: make(chan verbs.ClusterStatus, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	n := NewNodes(s, "", t.Context(), &running)
	defer close(s.answers)
	status := func(logs int) verbs.ClusterStatus {
		return verbs.ClusterStatus{Logs: make([]verbs.LogStatus, logs)}
	}
	s.answers <- status(1)
	require.Len(t, n.status(t.Context()).Logs, 1)
	n.mu.Lock()
	n.when = time.Now().Add(-time.Minute)
	n.mu.Unlock()
	require.Len(t, n.status(t.Context()).Logs, 1, "as it was known")
	s.answers <- status(2)
	require.Eventually(t, func() bool { return len(n.status(t.Context()).Logs) == 2 }, time.Minute, time.Millisecond, "the answer is known")
}
