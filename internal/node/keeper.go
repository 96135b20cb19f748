package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/record"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/segment"
)

// retainAfter is how many bytes a log with a limit of size writes before
// retention is looked at again. A log that writes several segments a second
// then gets each one back in time to use its file again.
const retainAfter = 32 << 20

// retentionEvery is how often retention is looked at. With the tick before
// and the command after it, a record outlives its retention by less than 2 s.
const retentionEvery = time.Second

// retainTime bounds one look at the retention of one log, so that one that
// hangs does not stop the others.
const retainTime = 5 * time.Second

// keeper is the node's clock: one goroutine ticks the replicas and watches
// the disk, another applies retention, whose look-ups may read the disk.
type keeper struct {
	ctx     context.Context // ends with stop
	cancel  context.CancelFunc
	mu      sync.Mutex // running.Add against running.Wait
	stopped bool
	running sync.WaitGroup
	// grown asks for a look at retention before the next second is over.
	grown chan struct{}
}

func (k *keeper) start(n *Node) {
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.grown = make(chan struct{}, 1)
	k.run(n.keepTime)
	k.run(n.keepRetention)
}

// run lets f run until stop, which waits for it. It reports false, and runs
// nothing, after stop.
func (k *keeper) run(f func(context.Context)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.running.Go(func() { f(k.ctx) })
	}
	return !k.stopped
}

func (k *keeper) stop() {
	if k.cancel == nil {
		return
	}
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.cancel()
	k.running.Wait()
}

func (n *Node) keepTime(ctx context.Context) {
	tick := time.NewTicker(core.TickMillis * time.Millisecond)
	defer tick.Stop()
	for ticks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, h := range *n.logs.Load() {
			if h.replica != nil {
				h.replica.Tick()
				h.refreshAge()
			}
		}
		if ticks++; ticks%gossipTicks == 0 {
			n.watchSpace()
			n.gossip()
			n.tellRoom()
			n.tellNews()
		}
	}
}

func (n *Node) keepRetention(ctx context.Context) {
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.keeper.grown:
		}
		for _, h := range *n.logs.Load() {
			if h.replica == nil || !h.replica.Status().Leading {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, retainTime)
			err := n.retain(limited, h)
			cancel()
			var corrupt *segment.CorruptError
			if errors.As(err, &corrupt) {
				h.found(err)
			} else if err != nil && ctx.Err() == nil {
				n.logger.Warn("could not apply retention", "log", h.name, "error", err)
			}
		}
	}
}

// wroteTo counts the bytes that a log has written since retention was looked
// at.
func (n *Node) wroteTo(h *hosted, bytes int) {
	if h.config.Load().RetentionBytes == 0 || h.unretained.Add(int64(bytes)) < retainAfter {
		return
	}
	h.unretained.Store(0)
	select {
	case n.keeper.grown <- struct{}{}:
	default:
	}
}

// retain trims what a log's retention has outlived.
func (n *Node) retain(ctx context.Context, h *hosted) error {
	if h.id == catalogID {
		if c := n.catalog.Load(); c != nil {
			return c.checkpoint(ctx)
		}
		return nil
	}
	if err := h.settle(ctx); err != nil {
		return err
	}
	config := h.config.Load()
	if config.Durability == Memory {
		n.reserveSoon(h)
	}
	start, end, err := h.replica.Tail().Bounds()
	if err != nil || start == end {
		return err
	}
	var byAge, bySize record.Offset
	if config.Retention > 0 {
		if byAge, err = h.log.OffsetAtTime(n.now().Add(-config.Retention).UnixMilli()); err != nil {
			return err
		}
	}
	if config.RetentionBytes > 0 {
		if bySize, err = h.log.OffsetAtSize(config.RetentionBytes, end); err != nil {
			return err
		}
	}
	target, due := cluster.TrimDue(start, end, byAge, bySize)
	if !due {
		return nil
	}
	_, err = h.command(ctx, record.Command{Kind: record.Trim, Offset: target})
	return err
}
