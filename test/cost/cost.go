// Package cost measures the allocations, memory and processor time of work in this process, and how late its sleeps are.
package cost

import (
	"runtime/metrics"
	"syscall"
	"time"
)

// Of returns the bytes that are allocated and the time that processors work while f is called
// so many times, for one call. All that the process does meanwhile counts: whatever has to be made once is made
// by calls before. Where other work of the process makes a figure larger now and then, the least of several is
// that of f.
func Of(times int, f func()) (bytes int64, processor time.Duration) {
	allocated, worked := Allocated(), Worked()
	for range times {
		f()
	}
	return (Allocated() - allocated) / int64(times), (Worked() - worked) / time.Duration(times)
}

// Most is what may be allocated where the program allocates so many bytes.
func Most(bytes int) int64 { return factor * int64(bytes) }

// Allocated returns the bytes that the process has allocated on its heap so far.
func Allocated() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// Worked returns the time that processors have worked for the process so far.
func Worked() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Held returns the bytes of memory that the process has from the system for its heap and stacks, and has not
// given back.
func Held() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
