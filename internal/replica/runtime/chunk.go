package runtime

import (
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Chunk is a run of committed entries. The frames are valid until the next call of the reader
// that returned them; their payloads stay valid until Release.
type Chunk struct {
	Entries    []segment.Entry
	Start, End record.Offset // the readable range when the chunk was read

	memory *[]byte
}

// Stored reports whether the chunk was read from segments rather than from memory.
func (c *Chunk) Stored() bool { return c.memory != nil }

// Release releases the memory of the payloads if it belongs to this chunk alone. The payloads
// must not be used afterwards. It may be called at most once. A chunk that is never released is
// garbage collected.
func (c *Chunk) Release() {
	if c.memory != nil {
		chunkMemory.Put(c.memory)
		c.memory = nil
	}
}

// chunkMemory is a pool of buffers for chunks read from disk. In long reads, clearing new memory
// for each chunk would take a seventh of the time.
var chunkMemory = sync.Pool{New: func() any {
	b := make([]byte, ChunkRoom)
	return &b
}}

// ChunkRoom is the size of a chunk of the usual 1 MiB that ends with a whole frame. It is what a
// chunk takes of the node's memory for reads.
const ChunkRoom = 1<<20 + 256<<10
