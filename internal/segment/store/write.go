package store

import (
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// Write stages everything in ws, writes it with one system call per segment,
// and syncs once if one of ws asks for it.
//
// Hard states between the first and the last of ws are not written: nobody
// has seen them before Write returns.
func (s *Store) Write(ws []segment.Write) (segment.Result, error) {
	if err := s.failed(); err != nil {
		return segment.Result{}, err
	}
	if err := segment.CheckWrites(ws, s.FirstIndex(), s.LastIndex()+1); err != nil {
		return segment.Result{}, err
	}
	var result segment.Result
	if err := s.write(ws, &result); err != nil {
		return result, s.fail(err)
	}
	return result, nil
}

func (s *Store) write(ws []segment.Write, result *segment.Result) error {
	s.stagedNext = s.active.index.Next
	hard, mustSync := s.hard, false
	for i := range ws {
		for k := range ws[i].Frames {
			if err := s.stageEntry(&ws[i].Frames[k], result); err != nil {
				return err
			}
		}
		if ws[i].HardState != nil {
			hard = *ws[i].HardState
		}
		mustSync = mustSync || ws[i].MustSync
	}
	if hard != s.hard {
		if err := s.stageHardState(hard, result); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	segment.CallWritten(ws)
	if mustSync {
		if err := s.sync(); err != nil {
			return err
		}
		return s.writeWatermarkIfDue()
	}
	return nil
}

// Mark writes a sync mark unless the newest frame is one. It is not synced:
// it becomes durable with the next write, or when the kernel gets to it. The
// durable watermark is written of what is durable before it.
func (s *Store) Mark() error {
	if err := s.failed(); err != nil {
		return err
	}
	s.filler.shrink()
	s.gather.shrink()
	if err := s.watermark.Write(s.durable); err != nil {
		return s.fail(err)
	}
	size := format.FrameSize(format.HardStateSize)
	if s.torn || s.marked == s.position || s.mustRoll(size) {
		return nil // a mark is never worth a segment
	}
	s.stageState(format.MarkFrame, s.hard)
	if err := s.flush(); err != nil {
		return s.fail(err)
	}
	s.marked = s.position
	return nil
}

// stagedFrame is a frame of the write being prepared.
type stagedFrame struct {
	header   format.FrameHeader
	position int64
}

func (s *Store) stageEntry(f *segment.Frame, result *segment.Result) error {
	if f.Index != s.stagedNext {
		if err := s.truncateSuffix(f.Index, result); err != nil {
			return err
		}
	}
	if s.mustRoll(format.FrameSize(len(f.Payload))) {
		if err := s.roll(result); err != nil {
			return err
		}
	}
	s.stage(format.EntryHeader(f), f.Payload)
	s.stagedNext = f.Index + 1
	return nil
}

func (s *Store) stageHardState(hard segment.HardState, result *segment.Result) error {
	if s.mustRoll(format.FrameSize(format.HardStateSize)) {
		if err := s.roll(result); err != nil {
			return err
		}
	}
	s.stageState(format.HardStateFrame, hard)
	return nil
}

func (s *Store) stageState(kind format.FrameKind, hard segment.HardState) {
	payload := make([]byte, format.HardStateSize)
	format.PutHardState(payload, hard)
	s.stage(format.FrameHeader{
		Length: format.HardStateSize, Kind: kind, Index: s.stagedNext - 1,
		PayloadCRC: format.Checksum(payload),
	}, payload)
	s.mu.Lock()
	s.hard = hard
	s.mu.Unlock()
}

// stage adds a frame to the write being prepared.
func (s *Store) stage(h format.FrameHeader, payload []byte) {
	h.Salt, h.Synced, h.Before = s.active.header.Salt, s.synced, s.before
	position := s.position + s.gather.size
	h.Encode(s.gather.extend(format.FrameHeaderSize), position)
	s.gather.add(payload)
	clear(s.gather.extend(int(h.Size()) - format.FrameHeaderSize - len(payload)))
	s.staged = append(s.staged, stagedFrame{h, position})
	s.before = h.HeaderCRC
}

// flush writes what is staged and shows it to readers.
func (s *Store) flush() error {
	if s.gather.size == 0 {
		return nil
	}
	active := s.active
	s.gather.close()
	end := s.position + s.gather.size
	if err := s.writeOut(active, end); err != nil {
		return err
	}
	s.mu.Lock()
	for i := range s.staged {
		if f := &s.staged[i]; f.header.Kind == format.EntryFrame {
			active.index.Add(&f.header, f.position)
		}
	}
	active.end = active.index.Next
	s.mu.Unlock()
	s.filler.wrote(s.gather.size, end, s.Options.SegmentBytes)
	s.position = end
	s.staged = s.staged[:0]
	s.gather.reset()
	return nil
}

// writeOut writes the vectors up to end. Beyond the filled part of the file
// the filler must not be at work: its zeros would land on our frames.
func (s *Store) writeOut(active *Segment, end int64) error {
	if end > active.filled.Load() {
		s.spares.mu.Lock()
		defer s.spares.mu.Unlock()
		defer func() { active.filled.Store(max(active.filled.Load(), end)) }()
	}
	return active.file.WriteVector(s.gather.vectors, s.position)
}
