package rpc

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// countedBuffer notifies an outbox when gRPC has no more use for the buffer. gRPC's own
// buffers do not do so where they are too small to be pooled.
type countedBuffer struct {
	mem.Buffer
	of   *outbox
	uses atomic.Int32
}

var countedBuffers = sync.Pool{New: func() any { return new(countedBuffer) }}

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
