package segment

import "strandline.dev/test/flaw"

// Write stages everything in ws, writes it with one system call per segment,
// and syncs once if one of ws asks for it.
//
// Hard states between the first and the last of ws are not written: nobody
// has seen them before Write returns.
func (s *Store) Write(ws []Write) (Result, error) {
	if err := s.failed(); err != nil {
		return Result{}, err
	}
	if err := check(ws, s.FirstIndex(), s.LastIndex()+1); err != nil {
		return Result{}, err
	}
	var result Result
	if err := s.write(ws, &result); err != nil {
		return result, s.fail(err)
	}
	return result, nil
}

func (s *Store) write(ws []Write, result *Result) error {
	s.stagedNext = s.active.index.next
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
	tellWritten(ws)
	if mustSync && !flaw.Is(flaw.AckBeforeFsync) {
		if err := s.sync(); err != nil {
			return err
		}
		return s.testifyIfDue()
	}
	return nil
}

// Mark writes a sync mark unless the newest frame is one. It is not synced:
// it becomes durable with the next write, or when the kernel gets to it. The
// witness is told of what is durable before it.
func (s *Store) Mark() error {
	if err := s.failed(); err != nil {
		return err
	}
	s.filler.shrink()
	s.gather.shrink()
	if err := s.testify(); err != nil {
		return s.fail(err)
	}
	size := frameSize(hardStateSize)
	if s.torn || s.marked == s.position || s.mustRoll(size) {
		return nil // a mark is never worth a segment
	}
	s.stageState(markFrame, s.hard)
	if err := s.flush(); err != nil {
		return s.fail(err)
	}
	s.marked = s.position
	return nil
}

// stagedFrame is a frame of the write being prepared.
type stagedFrame struct {
	header   frameHeader
	position int64
}

func (s *Store) stageEntry(f *Frame, result *Result) error {
	if f.Index != s.stagedNext {
		if err := s.supersede(f.Index, result); err != nil {
			return err
		}
	}
	if s.mustRoll(frameSize(len(f.Payload))) {
		if err := s.roll(result); err != nil {
			return err
		}
	}
	s.stage(frameHeader{
		length: uint32(len(f.Payload)), kind: entryFrame, entryType: f.Type,
		index: f.Index, term: f.Term, first: f.First, count: f.Count, time: f.Time,
		payloadCRC: f.CRC,
	}, f.Payload)
	s.stagedNext = f.Index + 1
	return nil
}

func (s *Store) stageHardState(hard HardState, result *Result) error {
	if s.mustRoll(frameSize(hardStateSize)) {
		if err := s.roll(result); err != nil {
			return err
		}
	}
	s.stageState(hardStateFrame, hard)
	return nil
}

func (s *Store) stageState(kind frameKind, hard HardState) {
	payload := make([]byte, hardStateSize)
	hard.encode(payload)
	s.stage(frameHeader{
		length: hardStateSize, kind: kind, index: s.stagedNext - 1,
		payloadCRC: checksum(payload),
	}, payload)
	s.mu.Lock()
	s.hard = hard
	s.mu.Unlock()
}

// stage adds a frame to the write being prepared.
func (s *Store) stage(h frameHeader, payload []byte) {
	h.salt, h.synced, h.before = s.active.header.salt, s.synced, s.before
	position := s.position + s.gather.size
	h.encode(s.gather.extend(frameHeaderSize), position)
	s.gather.add(payload)
	clear(s.gather.extend(int(h.size()) - frameHeaderSize - len(payload)))
	s.staged = append(s.staged, stagedFrame{h, position})
	s.before = h.headerCRC
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
		if f := &s.staged[i]; f.header.kind == entryFrame {
			active.index.add(&f.header, f.position)
		}
	}
	active.end = active.index.next
	s.mu.Unlock()
	s.filler.wrote(s.gather.size, end, s.options.SegmentBytes)
	s.position = end
	s.staged = s.staged[:0]
	s.gather.reset()
	return nil
}

// writeOut writes the vectors up to end. Beyond the filled part of the file
// the filler must not be at work: its zeros would land on our frames.
func (s *Store) writeOut(active *segment, end int64) error {
	if end > active.filled.Load() {
		s.spares.mu.Lock()
		defer s.spares.mu.Unlock()
		defer func() { active.filled.Store(max(active.filled.Load(), end)) }()
	}
	return active.file.WriteVector(s.gather.vectors, s.position)
}
