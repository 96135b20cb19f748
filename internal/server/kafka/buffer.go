package kafkaserver

import (
	"math/bits"
	"sync"

	"strandline.dev/internal/budget"
)

// buffer is the memory of a request, and what it took of the budget.
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

// bufferClass is the place in buffers of memory for so many bytes, and its size;
// a request larger than keptBuffer has none.
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

// release ends the use of the memory; what was released before has none.
func (b *buffer) release() {
	if b.pooled != nil {
		b.class.Put(b.pooled)
	}
	if b.budget != nil {
		b.budget.Release(b.charged)
	}
	*b = buffer{}
}
