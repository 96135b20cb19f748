package backend

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node"
)

// slow is a node whose peers do not all answer at once.
type slow struct {
	Node
	answers chan node.ClusterStatus
}

func (s *slow) ClusterStatus(context.Context, node.Caller) (node.ClusterStatus, error) {
	return <-s.answers, nil
}

func TestClientsDoNotWaitForANodeThatDoesNotAnswer(t *testing.T) {
	s := &slow{answers: make(chan node.ClusterStatus, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	n := NewNodes(s, "", t.Context(), &running)
	defer close(s.answers)
	status := func(logs int) node.ClusterStatus {
		return node.ClusterStatus{Logs: make([]node.LogStatus, logs)}
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
