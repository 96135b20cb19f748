package rpc

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// countedBuffer notifies whoever waits for it when gRPC has no more use for the buffer. gRPC's own
// buffers do not do so where they are too small to be pooled.
type countedBuffer struct {
	mem.Buffer
	of   interface{ written() }
	uses atomic.Int32
}

var countedBuffers = sync.Pool{New: func() any { return new(countedBuffer) }}

// counting makes the last buffer of a message one that notifies of. There is one in an empty message, too.
func counting(data mem.BufferSlice, of interface{ written() }) mem.BufferSlice {
	if len(data) == 0 {
		data = mem.BufferSlice{mem.SliceBuffer{}}
	}
	counted := countedBuffers.Get().(*countedBuffer)
	counted.Buffer, counted.of = data[len(data)-1], of
	counted.uses.Store(1)
	data[len(data)-1] = counted
	return data
}

// Ref implements mem.Buffer.
func (b *countedBuffer) Ref() { b.uses.Add(1) }

// Free implements mem.Buffer.
func (b *countedBuffer) Free() {
	if b.uses.Add(-1) > 0 {
		return
	}
	b.Buffer.Free()
	of := b.of
	b.Buffer, b.of = nil, nil
	countedBuffers.Put(b)
	of.written()
}
