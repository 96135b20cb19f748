package runtime

import (
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// Chunk is a run of committed entries. The frames are valid until the next
// call of the reader that gave them; their payloads stay, until Release.
type Chunk struct {
	Entries    []segment.Entry
	Start, End record.Offset // the readable range when the chunk was read

	memory *[]byte
}

// Stored reports whether the chunk was read from segments, not found in memory.
func (c *Chunk) Stored() bool { return c.memory != nil }

// Release gives the memory of the payloads back, if it was this chunk's alone:
// nobody may look at them any more. It is called at most once. A chunk that is
// never released is left to the garbage collector.
func (c *Chunk) Release() {
	if c.memory != nil {
		chunkMemory.Put(c.memory)
		c.memory = nil
	}
}

// chunkMemory is what chunks are read into from disk. At the speed of long
// reads, clearing new memory for each would take a seventh of the time.
var chunkMemory = sync.Pool{New: func() any {
	b := make([]byte, ChunkRoom)
	return &b
}}

// ChunkRoom holds a chunk of the usual 1 MiB, which ends with a whole frame. It is
// what a chunk takes from the node's memory for reads.
const ChunkRoom = 1<<20 + 256<<10
