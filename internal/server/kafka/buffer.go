package kafkaserver

import (
	"math/bits"
	"sync"

	"strandline.dev/internal/budget"
)

// buffer is the memory of a request, with the bytes that it acquired from the budget.
type buffer struct {
	bytes   []byte
	pooled  *[]byte    // nil: not to be used again
	class   *sync.Pool // where pooled belongs
	charged int64
	budget  *budget.Pool // nil: nothing was taken
}

// buffers hold memory for Produce requests by size: smallBuffer, twice that and
// so on, and at last keptBuffer.
var buffers [10]sync.Pool

// bufferClass returns the pool of buffers that can hold size bytes, and their capacity. A request
// larger than keptBuffer has none.
func bufferClass(size int) (class *sync.Pool, capacity int) {
	if size > keptBuffer {
		return nil, size
	}
	n := bits.Len(uint(max(size, smallBuffer)-1)) - bits.Len(smallBuffer-1)
	n = min(n, len(buffers)-1)
	if n == len(buffers)-1 {
		return &buffers[n], keptBuffer
	}
	return &buffers[n], smallBuffer << n
}

// release releases the memory. It may be called again.
func (b *buffer) release() {
	if b.pooled != nil {
		b.class.Put(b.pooled)
	}
	if b.budget != nil {
		b.budget.Release(b.charged)
	}
	*b = buffer{}
}
