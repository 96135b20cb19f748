package node

import (
	"context"
	"sync"
	"time"

	"strandline.dev/internal/record"
)

// slowWork is work of the disk that holds up other logs: opening the files of one,
// or removing them. It is waited for as long as a disk takes that works; then it goes
// on by itself, so that a disk that hangs blocks neither other logs nor Close.
type slowWork struct {
	limit   time.Duration
	closing context.Context // once it ends, nothing is waited for
	running sync.WaitGroup
}

// await does work. It returns nil once that is done; otherwise work goes on, and the
// channel is closed when it ends.
func (s *slowWork) await(work func()) (late <-chan struct{}) {
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		work()
	})
	limit := time.NewTimer(s.limit)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-limit.C:
	case <-s.closing.Done():
	}
	return done
}

// openedLater stands for a log whose files take long to open, and brings that log in
// when they are open. Until then nothing else touches its files.
func (n *Node) openedLater(h *hosted, l catalogLog, opened <-chan struct{}, result *error) *hosted {
	waiting := newHosted(l, h.replicaID)
	waiting.opening = true
	waiting.stand(record.Refuse(record.NotLeader, "log %q is not open on this node yet: the disk has not answered", h.name))
	n.logger.Error("a log is not open yet: the disk has not answered", "log", h.name, "replica", h.replicaID)
	n.slow.running.Go(func() {
		<-opened
		if n.bringIn(waiting, h, l, *result) {
			n.rehost() // what the catalog has wanted of it meanwhile
		}
	})
	return waiting
}

// bringIn puts a log that was opened in the place of the one that stood for it. It
// reports false if the node has been closed.
func (n *Node) bringIn(waiting, h *hosted, l catalogLog, err error) bool {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.closed {
		if err == nil {
			n.shut(h)
		}
		return false
	}
	if err == nil && h.leaving.Load() { // found before the log was shown, so that nobody attends to it
		n.shut(h)
		h = n.host(l, h.replicaID)
	} else {
		n.judgeOpened(h, l, err)
	}
	n.addLog(h)
	return true
}
