package budget

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// releaseEvery is how often a look is taken at what an idle process holds.
	releaseEvery = 5 * time.Second
	// releaseMost is how much of it may be for nothing.
	releaseMost = 128 << 20
)

// Release gives memory back to the system that a burst has left behind, until ctx
// ends. By itself the runtime collects only as fast as the program allocates, and a
// server with nothing to do does not. Size is what the process may use.
func Release(ctx context.Context, size int64) {
	most := uint64(min(size/4, releaseMost))
	var kept uint64 // that was in use when it was looked at last
	allocated, _ := heap()
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before := allocated
		var held uint64
		if allocated, held = heap(); allocated-before >= most {
			kept = 0 // the runtime sees to it
			continue
		}
		if held > most && held > kept+kept/4 {
			debug.FreeOSMemory()
			_, kept = heap()
		}
	}
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
