package process

import (
	"sync"
	"sync/atomic"
	"time"
)

// Unknown is the processor time of servers that are not on this machine, or belong to
// somebody else.
const Unknown time.Duration = -1

// Usage returns a function for the processor time that this process and its helpers
// have taken so far, and that of the processes of this machine which listen at addresses now, together; Unknown
// if one of those is not found. A server in this process counts as both. To find them
// takes much longer than to call the function.
func Usage(addresses []string) func() (own, servers time.Duration) {
	ids, ok := listeners(addresses)
	if !ok {
		return func() (own, servers time.Duration) { return clientTime(), Unknown }
	}
	return func() (own, servers time.Duration) {
		for id := range ids {
			taken, ok := timeOf(id)
			if !ok {
				return clientTime(), Unknown
			}
			servers += taken
		}
		return clientTime(), servers
	}
}

// Resident returns the memory, in bytes, that the processes of this machine which listen at addresses
// have resident, together. ok is false if one of them is not found.
func Resident(addresses []string) (bytes int64, ok bool) {
	ids, ok := listeners(addresses)
	for id := range ids {
		one, found := residentOf(id)
		bytes, ok = bytes+one, ok && found
	}
	return bytes, ok
}

// listeners finds the processes of this machine that listen at addresses. ok is false if one of them is not
// found.
func listeners(addresses []string) (ids map[int]bool, ok bool) {
	ids = map[int]bool{}
	for _, address := range addresses {
		id, ok := listener(address)
		if !ok {
			return nil, false
		}
		ids[id] = true
	}
	return ids, true
}

// helpers are the processes that do a part of the client's work, by their ids, and
// helped what those took that are no helpers any more, in nanoseconds.
var (
	helpers sync.Map
	helped  atomic.Int64
)

// Helper counts a process of this machine as a part of the client from now on; the function
// that it returns ends that. Call it before the process has been waited for.
func Helper(id int) (end func()) {
	helpers.Store(id, nil)
	return func() {
		if taken, ok := timeOf(id); ok {
			helped.Add(int64(taken))
		}
		helpers.Delete(id)
	}
}

func clientTime() time.Duration {
	all := ownTime()
	if all != Unknown {
		all += time.Duration(helped.Load())
	}
	helpers.Range(func(id, _ any) bool {
		taken, ok := timeOf(id.(int))
		if all == Unknown || !ok {
			all = Unknown
			return false
		}
		all += taken
		return true
	})
	return all
}
