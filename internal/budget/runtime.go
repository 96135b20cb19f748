package budget

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// LookEvery is the interval at which Release looks at what a server holds.
	LookEvery = 5 * time.Second
	// collectAgain is how many looks pass between two collections that free nothing:
	// what a load held is garbage some time after it, and nothing reports when.
	collectAgain = 4
	// besides is what the program's own pages take, about 30 MiB, and what is allocated
	// while the runtime collects: up to 150 MiB where others keep the cores busy, as it takes the time that
	// it waits for them for its own, and then lets the heap grow.
	besides = 192 << 20
	// releaseMost is how much of what an idle process holds may be garbage.
	releaseMost = 128 << 20
)

// Limit lets Go's runtime keep the process below so many bytes, and returns the limit
// before. The system counts the pages of the program itself besides, which the runtime
// does not, and the runtime exceeds its limit by what is allocated while it collects.
func Limit(size int64) (before int64) {
	return debug.SetMemoryLimit(size - max(size/16, min(size*3/8, besides)))
}

// Release gives memory back to the system that a burst has left behind, until ctx
// ends. By itself the runtime collects only as fast as the program allocates, and a
// server with nothing to do does not. Size is what the process may use, and every how
// often to look: LookEvery, or in a test more often.
func Release(ctx context.Context, size int64, every time.Duration) {
	r := releaser{most: uint64(min(size/4, releaseMost))}
	r.allocated, _ = heap()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.due(heap()) {
			// Twice, because a sync.Pool keeps what it has over one collection.
			runtime.GC()
			debug.FreeOSMemory()
			r.collected(heap())
		}
	}
}

// releaser decides when to collect. It is asked at each look.
type releaser struct {
	most      uint64 // bytes that are not worth a collection
	allocated uint64 // at the last look, since the process began
	kept      uint64 // held after the last collection; 0 once the runtime collects again
	looks     int    // since the last collection
}

// due reports whether to collect, in a process that has allocated and holds so many
// bytes.
func (r *releaser) due(allocated, held uint64) bool {
	busy := allocated-r.allocated >= r.most // the runtime collects by itself
	r.allocated = allocated
	r.looks++
	if busy {
		r.kept = 0
		return false
	}
	return held > r.most && (held > r.kept+r.kept/4 || r.looks >= collectAgain)
}

// collected notes what a collection has left.
func (r *releaser) collected(allocated, held uint64) {
	r.allocated, r.kept, r.looks = allocated, held, 0
}

// Held is how much memory the process has of the system.
func Held() int64 {
	_, held := heap()
	return int64(held)
}

func heap() (allocated, held uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64() - samples[2].Value.Uint64()
}
