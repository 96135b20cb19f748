package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"

	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// keysSuffix is the suffix of key summary files, which have the names of their segments.
const keysSuffix = ".keys"

// keySummaries reads and writes the key summaries of complete segments, which lie in files beside
// the segments. The loss of one does no harm, so they are not synced, and a summary that does not
// match its segment is ignored: Summarize writes it again.
type keySummaries struct{ *reader }

func keysPath(seg *Segment) string { return strings.TrimSuffix(seg.Path, ".seg") + keysSuffix }

// summaryMemory is a pool of buffers that summaries are read into.
var summaryMemory = sync.Pool{New: func() any {
	b := make([]byte, format.LargestKeySummary)
	return &b
}}

// LookUpKeys implements segment.Log.
func (k *keySummaries) LookUpKeys(from record.Offset, q *segment.KeyQuery) segment.KeyAnswer {
	live := k.liveSegments()
	at, err := k.lastBefore(live, func(p *format.Point) bool { return p.Offset <= from })
	if err != nil || at+1 >= len(live) {
		return segment.KeyAnswer{}
	}
	h, err := k.headerOf(live[at])
	if err != nil {
		return segment.KeyAnswer{}
	}
	behind, err := k.headerOf(live[at+1])
	if err != nil || from < h.Start || from >= behind.Start {
		return segment.KeyAnswer{}
	}
	memory := summaryMemory.Get().(*[]byte)
	defer summaryMemory.Put(memory)
	s := segment.KeyAnswer{End: behind.Start, Time: behind.Time}
	summary, read := k.load(live[at], h, *memory)
	q.Read += read
	if summary != nil {
		s.Lacks = !summary.MayHave(q)
	} else {
		s.Unknown = true
	}
	return s
}

// load reads the summary of a segment into memory. It returns nil if there is none, and the
// number of bytes read.
func (k *keySummaries) load(seg *Segment, h *format.Header, memory []byte) (summary *segment.KeySummary, read int) {
	if !seg.summarized.Load() {
		return nil, 0
	}
	b, err := k.readFile(keysPath(seg), memory)
	if err == nil {
		var s format.KeySummary
		if s, err = format.ParseKeySummary(b); err == nil {
			k.mu.RLock()
			whole := s.End >= seg.end
			k.mu.RUnlock()
			if whole && s.Salt == h.Salt && s.Ordinal == h.Ordinal {
				return s.KeySummary, len(b)
			}
		}
	}
	seg.summarized.Store(false)
	return nil, len(b)
}

func (k *keySummaries) readFile(path string, memory []byte) ([]byte, error) {
	file, err := k.FS.Open(path)
	if err != nil {
		return nil, err
	}
	n, err := file.ReadAt(memory, 0)
	if err == io.EOF {
		err = nil
	}
	return memory[:n], errors.Join(err, file.Close())
}

// Summarize implements segment.Log.
func (k *keySummaries) Summarize(rest func() bool) (more bool, err error) {
	seg := k.lacking()
	if seg == nil || k.failed() != nil {
		return false, nil
	}
	if free, _, err := k.FS.Free(k.Path); err == nil && free < growReserve+format.LargestKeySummary {
		return false, nil // a later call will
	}
	if err := k.useSegment(seg); err != nil {
		if errors.Is(err, segment.ErrTrimmed) {
			return true, nil
		}
		return false, err
	}
	s, err := k.summary(seg, rest)
	if err = errors.Join(err, k.release(seg)); err != nil || s == nil {
		return false, err
	}
	if err := k.save(seg, s); err != nil {
		return false, fmt.Errorf("write a key summary: %w", err)
	}
	return true, nil
}

// lacking returns the first complete segment without a summary, or nil if there is none.
func (k *keySummaries) lacking() *Segment {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, seg := range k.live {
		if seg != k.active && !seg.summarized.Load() {
			return seg
		}
	}
	return nil
}

// summary builds the summary of a segment in use. It returns nil if rest returned false.
func (k *keySummaries) summary(seg *Segment, rest func() bool) (*format.KeySummary, error) {
	k.mu.RLock()
	end, h := seg.end, seg.header
	k.mu.RUnlock()
	builder, memory := segment.NewKeySummaryBuilder(), []byte(nil)
	for i, position := seg.First, int64(0); i < end; {
		k.mu.RLock()
		b, stop := k.chunkAt(seg, i, position, end, segment.SummaryChunk)
		k.mu.RUnlock()
		if memory == nil {
			memory = make([]byte, segment.SummaryChunk)
		}
		if err := b.read(memory); err != nil {
			return nil, err
		}
		entries, err := b.entries(i, stop, math.MaxInt, 0, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Count > 0 {
				builder.AddEntry(e.Payload)
			}
		}
		if b.next == i || !rest() {
			return nil, nil
		}
		i, position = b.next, b.position
	}
	return &format.KeySummary{Salt: h.Salt, Ordinal: h.Ordinal, End: end, KeySummary: builder.Finish()}, nil
}

// save writes the summary of a segment, unless the segment has left the log.
func (k *keySummaries) save(seg *Segment, s *format.KeySummary) error {
	k.upkeep.Lock()
	defer k.upkeep.Unlock()
	if k.hasLeft(seg) {
		return nil
	}
	path := keysPath(seg)
	if err := k.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := k.FS.Create(path)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(s.Encode(), 0)
	seg.summarized.Store(true)
	return errors.Join(err, file.Close())
}

// dropSummaries removes the summaries of segments that leave the log. One that remains is removed
// when the log is opened next.
func dropSummaries(d *Dir, segments []*Segment) {
	for _, seg := range segments {
		if seg.summarized.Swap(false) {
			_ = d.FS.Remove(keysPath(seg))
		}
	}
}
