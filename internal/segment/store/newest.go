package store

import (
	"sync"
	"sync/atomic"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// newest is the end of the newest segment, where frames are written. Only the writer uses it;
// what it shares with others is in list and hardState.
type newest struct {
	*Dir
	*list
	*hardState
	spares *spares
	busy   *activity

	position   int64  // of the next frame in the active segment
	synced     int64  // everything in front of this position in the active segment is durable
	marked     int64  // position behind the newest sync mark
	before     uint32 // header CRC of the last frame
	torn       bool   // the active segment ends in a torn tail or was repaired, and takes no more frames
	gather     gather
	staged     []stagedFrame
	stagedNext uint64 // index behind the last entry written or staged

	durable format.Watermark // describes everything that is durable

	// rollNext is the ordinal of an active segment that is damaged: the next write begins another,
	// see Store.RepairGroup. Any goroutine may set it.
	rollNext atomic.Uint64
}

// stagedFrame is a frame of the write being prepared.
type stagedFrame struct {
	header   format.FrameHeader
	position int64
}

// activate makes seg the active segment. The caller holds mu.
func (e *newest) activate(seg *Segment) {
	e.segments = append(e.segments, seg)
	e.active = seg
	e.push(seg)
	e.position, e.marked = format.HeaderSize, format.HeaderSize
	e.before, e.torn = seg.header.Crc, false
	e.stagedNext = seg.First
	e.busy.position.Store(format.HeaderSize)
	e.noteDurable()
}

// stage adds a frame to the write being prepared.
func (e *newest) stage(h format.FrameHeader, payload []byte) {
	h.Salt, h.Synced, h.Before = e.active.header.Salt, e.synced, e.before
	position := e.position + e.gather.size
	h.Encode(e.gather.extend(format.FrameHeaderSize), position)
	e.gather.add(payload)
	clear(e.gather.extend(int(h.Size()) - format.FrameHeaderSize - len(payload)))
	e.staged = append(e.staged, stagedFrame{h, position})
	e.before = h.HeaderCRC
}

func (e *newest) stageState(kind format.FrameKind, hard segment.HardState) {
	payload := make([]byte, format.HardStateSize)
	format.PutHardState(payload, hard)
	e.stage(format.StateHeader(kind, e.stagedNext-1, payload), payload)
	e.setHardState(hard)
}

// writeFooter writes the footer of the active segment and returns its position, or 0 if none was
// written. A segment without a footer is scanned when it is first read, so a torn tail or a full
// disk is not an error.
func (e *newest) writeFooter() (int64, error) {
	payload := e.active.index.Encode(nil)
	if e.torn || len(payload) > format.MaxPayload || !e.mayGrow(e.position+format.FrameSize(len(payload))) {
		return 0, nil
	}
	position := e.position
	e.stage(format.StateHeader(format.FooterFrame, e.stagedNext-1, payload), payload)
	return position, e.flush()
}

// flush writes the staged frames and makes their entries visible to readers.
func (e *newest) flush() error {
	if e.gather.size == 0 {
		return nil
	}
	active := e.active
	e.gather.close()
	end := e.position + e.gather.size
	if err := e.writeOut(active, end); err != nil {
		return err
	}
	e.mu.Lock()
	for i := range e.staged {
		if f := &e.staged[i]; f.header.Kind == format.EntryFrame {
			active.index.Add(&f.header, f.position)
		}
	}
	active.end = active.index.Next
	e.mu.Unlock()
	e.busy.wrote(e.gather.size, end, e.Options.SegmentBytes)
	e.position = end
	e.staged = e.staged[:0]
	e.gather.reset()
	return nil
}

// writeOut writes the vectors up to end. Beyond the filled part of the file the filler must not
// write at the same time: its zeros would overwrite the frames.
func (e *newest) writeOut(active *Segment, end int64) error {
	if end > active.filled.Load() {
		e.spares.mu.Lock()
		defer e.spares.mu.Unlock()
		defer func() { active.filled.Store(max(active.filled.Load(), end)) }()
	}
	return active.file.WriteVector(e.gather.vectors, e.position)
}

// mustRoll reports whether a frame of size bytes must go to a new segment: this one is full, ends
// in a torn tail or is damaged, or would have to grow on a disk without room while the spare has
// its blocks already.
func (e *newest) mustRoll(size int64) bool {
	if e.torn {
		return true
	}
	begin := e.position + e.gather.size
	if begin == format.HeaderSize {
		return false
	}
	if e.rollNext.Load() == e.active.Ordinal {
		return true
	}
	return begin+size > e.Options.SegmentBytes || !e.mayGrow(begin+size)
}

// mayGrow reports whether the active segment can be written up to end: its blocks are allocated,
// or the disk has room for them, or there is no spare.
func (e *newest) mayGrow(end int64) bool {
	filled := e.active.filled.Load()
	if end <= filled || !e.spares.have() {
		return true
	}
	free, _, err := e.FS.Free(e.Path)
	return err != nil || free > end-filled+growReserve
}

// growReserve is how many bytes must stay free on the disk for the active segment to grow. With
// less, the blocks may be gone by the time they are needed.
const growReserve = 1 << 20

// hardState is the newest hard state, and the configuration that segment headers hold.
type hardState struct {
	stateMu sync.RWMutex // only the writer changes hard, and reads it without the mutex
	hard    segment.HardState
	conf    []byte // never changes
}

func (h *hardState) HardState() segment.HardState {
	h.stateMu.RLock()
	defer h.stateMu.RUnlock()
	return h.hard
}

func (h *hardState) setHardState(hard segment.HardState) {
	h.stateMu.Lock()
	defer h.stateMu.Unlock()
	h.hard = hard
}

func (h *hardState) ConfState() []byte { return h.conf }

// sync makes all frames written so far durable. Only here does the log wait for the disk on
// behalf of an append. Only the writer calls it, so at most one sync of a log runs at a time.
//
// An error means that the kernel may have dropped pages that it could not write, and will not
// report it again: a second sync could succeed without them. The caller stops the log.
func (e *newest) sync() error {
	if e.synced == e.position {
		return nil
	}
	if err := e.active.file.Datasync(); err != nil {
		return err
	}
	if e.Options.SyncDelay > 0 {
		delay(e.Options.SyncDelay)
	}
	e.noteDurable()
	return nil
}

// noteDurable records that everything written is durable. The watermark does not cover a sync
// mark at the end: its loss does no harm.
func (e *newest) noteDurable() {
	e.synced = e.position
	e.active.durable.Store(e.synced)
	e.durable = format.Watermark{
		Ordinal: e.active.Ordinal, Salt: e.active.header.Salt, Position: e.synced,
		Term: e.hard.Term, Vote: e.hard.Vote, Last: e.active.index.Next - 1,
	}
	if e.marked == e.synced && e.marked > format.HeaderSize {
		e.durable.Position -= format.FrameSize(format.HardStateSize)
	}
}
