package store

import (
	"sync"
	"sync/atomic"

	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// writer appends to the log: entries, hard states and sync marks.
type writer struct {
	*newest
	*failure
	reader    *reader
	names     *names
	watermark *WatermarkFile
	writing   bool // Write is running
}

// Write implements segment.Log. It stages everything in ws, writes it with one system call per
// segment, and syncs once if one of ws asks for it.
//
// Hard states between the first and the last of ws are not written: no one has seen them before
// Write returns.
func (w *writer) Write(ws []segment.Write) (segment.Result, error) {
	if err := w.failed(); err != nil {
		return segment.Result{}, err
	}
	if err := segment.CheckWrites(ws, w.FirstIndex(), w.LastIndex()+1); err != nil {
		return segment.Result{}, err
	}
	var result segment.Result
	w.writing = true
	err := w.write(ws, &result)
	w.writing = false
	if err == nil && len(result.Rolled) > 0 {
		err = bug(w.checkEnd())
	}
	if err != nil {
		return result, w.fail(err)
	}
	return result, nil
}

func (w *writer) write(ws []segment.Write, result *segment.Result) error {
	w.stagedNext = w.active.index.Next
	hard, mustSync := w.hard, false
	for i := range ws {
		for k := range ws[i].Entries {
			if err := w.stageEntry(&ws[i].Entries[k], result); err != nil {
				return err
			}
		}
		if ws[i].HardState != nil {
			hard = *ws[i].HardState
		}
		mustSync = mustSync || ws[i].MustSync
	}
	if hard != w.hard {
		if err := w.stageHardState(hard, result); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	segment.CallWritten(ws)
	if mustSync {
		if err := w.sync(); err != nil {
			return err
		}
		return w.writeWatermarkIfDue()
	}
	return nil
}

// Mark implements segment.Log. It writes a sync mark unless the newest frame is one. The mark is
// not synced: it becomes durable with the next write, or when the kernel writes it back. Before
// the mark, the durable watermark is written, for what is durable then.
func (w *writer) Mark() error {
	if err := w.failed(); err != nil {
		return err
	}
	w.Rest()
	if err := w.watermark.Write(w.durable); err != nil {
		return w.fail(err)
	}
	size := format.FrameSize(format.HardStateSize)
	if w.torn || w.marked == w.position || w.mustRoll(size) {
		return nil // a mark does not justify a new segment
	}
	w.stageState(format.MarkFrame, w.hard)
	if err := w.flush(); err != nil {
		return w.fail(err)
	}
	w.marked = w.position
	return nil
}

// Rest implements segment.Log: the filler keeps less ahead of the writer, and the buffer that writes are
// gathered in goes if it is large.
func (w *writer) Rest() {
	w.busy.shrink()
	w.gather.shrink()
}

func (w *writer) stageEntry(f *segment.Entry, result *segment.Result) error {
	if f.Index != w.stagedNext {
		if err := w.truncateSuffix(f.Index, result); err != nil {
			return err
		}
	}
	if w.mustRoll(format.FrameSize(len(f.Payload))) {
		if err := w.roll(result); err != nil {
			return err
		}
	}
	w.stage(format.EntryHeader(f), f.Payload)
	w.stagedNext = f.Index + 1
	return nil
}

func (w *writer) stageHardState(hard segment.HardState, result *segment.Result) error {
	if w.mustRoll(format.FrameSize(format.HardStateSize)) {
		if err := w.roll(result); err != nil {
			return err
		}
	}
	w.stageState(format.HardStateFrame, hard)
	return nil
}

func (w *writer) writeWatermarkIfDue() error {
	if !w.watermark.due(&w.durable) {
		return nil
	}
	return w.watermark.Write(w.durable)
}

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
	torn       bool   // the active segment ends in a torn tail or was repaired, and accepts no more frames
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

// gather collects the bytes of one write. Short parts are copied into one buffer; a long payload
// is referenced, and the write becomes a vector of buffers. The next write reuses the buffer.
type gather struct {
	buffer  []byte
	begun   int      // start of the part of buffer that is not in vectors yet
	vectors [][]byte // parts of buffer and long payloads, in order
	size    int64
}

// referenceFrom is the payload size in bytes from which a vector is cheaper than a copy, see
// BenchmarkGather.
const referenceFrom = 16 << 10

// keepBuffer bounds the memory that a log keeps between writes.
const keepBuffer = 1 << 20

// keepIdle bounds it while the log is idle.
const keepIdle = 16 << 10

func (g *gather) reset() {
	if cap(g.buffer) > keepBuffer {
		g.buffer = nil
	}
	clear(g.vectors) // releases the payloads
	g.buffer, g.vectors, g.begun, g.size = g.buffer[:0], g.vectors[:0], 0, 0
}

// shrink is called when the log becomes idle, with nothing gathered.
func (g *gather) shrink() {
	if cap(g.buffer) > keepIdle {
		g.buffer = nil
	}
	g.vectors = nil
}

// extend adds n bytes, which the caller fills before the next call.
func (g *gather) extend(n int) []byte {
	at := len(g.buffer)
	if cap(g.buffer)-at < n {
		// Bytes in vectors stay in the old buffer; the rest is copied.
		grown := make([]byte, len(g.buffer)-g.begun, max(2*cap(g.buffer), len(g.buffer)-g.begun+n, 4<<10))
		copy(grown, g.buffer[g.begun:])
		g.buffer, g.begun, at = grown, 0, len(grown)
	}
	g.buffer = g.buffer[:at+n]
	g.size += int64(n)
	return g.buffer[at:]
}

// add adds b, which must not change until the write is done.
func (g *gather) add(b []byte) {
	if len(b) < referenceFrom {
		copy(g.extend(len(b)), b)
		return
	}
	g.close()
	g.vectors = append(g.vectors, b)
	g.size += int64(len(b))
}

// close moves the bytes in buffer to vectors.
func (g *gather) close() {
	if len(g.buffer) > g.begun {
		g.vectors = append(g.vectors, g.buffer[g.begun:])
		g.begun = len(g.buffer)
	}
}
