package durablestreams

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// maxFolded bounds the memory of the states that no request uses, in bytes.
const maxFolded = 16 << 20

// Streams caches the states of streams. It removes those that were least recently used; a node folds
// them again from their logs.
type Streams struct {
	mu     sync.Mutex
	named  map[string]*folded
	unused list.List // of *folded, the most recently used in front
	bytes  int       // of the states in unused
}

// folded is the state of one stream. look guards the state. A write holds turn while it is decided and
// appended, and takes it before look.
type folded struct {
	turn, look lock
	state      *stream // nil: not folded yet

	log    string
	users  int
	cost   int
	unused *list.Element // nil while the state is used
}

// lock is a mutex that can be waited for with a context.
type lock chan struct{}

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) release() { <-l }

// NewStreams returns an empty cache.
func NewStreams() *Streams { return &Streams{named: map[string]*folded{}} }

// use returns the entry of a log, and keeps it until release.
func (s *Streams) use(log string) *folded {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.named[log]
	if f == nil {
		f = &folded{turn: make(lock, 1), look: make(lock, 1), log: log}
		s.named[log] = f
	}
	f.users++
	if f.unused != nil {
		s.unused.Remove(f.unused)
		f.unused, s.bytes = nil, s.bytes-f.cost
	}
	return f
}

// release ends a use.
func (s *Streams) release(f *folded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if f.state == nil {
		delete(s.named, f.log)
		return
	}
	f.cost, f.unused = f.state.bytes()+len(f.log), s.unused.PushFront(f)
	for s.bytes += f.cost; s.bytes > maxFolded; {
		oldest := s.unused.Remove(s.unused.Back()).(*folded)
		s.bytes -= oldest.cost
		delete(s.named, oldest.log)
	}
}

// found is the kind of a log.
type found int

const (
	isStream found = iota
	isLog          // not created by this protocol
	isEmpty        // a log without records
	isGone         // a stream whose first records were trimmed
)

// fold brings the state up to the present end of the log, with a linearizable read. The caller holds look.
func (h Handler) fold(ctx context.Context, f *folded) (found, error) {
	if f.state != nil {
		found, err := h.foldOn(ctx, f)
		switch reasonOf(err) {
		case record.LogReplaced, record.OffsetTrimmed, record.OffsetBeyondEnd:
			f.state = nil
		case record.LogNotFound:
			f.state = nil
			return 0, err
		default:
			return found, err
		}
	}
	found, err := h.foldOn(ctx, f)
	if reasonOf(err) == record.OffsetTrimmed {
		return h.trimmed(ctx, f.log)
	}
	return found, err
}

func (h Handler) foldOn(ctx context.Context, f *folded) (found, error) {
	s := f.state
	if s == nil {
		s = new(stream)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	frames, err := h.Logs.Read(ctx, &strandlinev1.ReadRequest{
		Log: f.log, LogId: s.id, From: &strandlinev1.ReadRequest_Offset{Offset: s.end}, Follow: true, Heartbeat: durationpb.New(pollTime),
		Projection: &strandlinev1.Projection{DropKey: true, DropValue: true},
	})
	if err != nil {
		return 0, err
	}
	for until := int64(-1); ; {
		frame, err := frames.Recv()
		if err != nil {
			return 0, err
		}
		if until < 0 { // the first frame has the bounds of the log and no records
			s.id, until = frame.GetLogId(), frame.GetEndOffset()
			if frame.GetStartOffset() > 0 { // every node answers the same, whether or not it folded the trimmed records
				return 0, record.Refuse(record.OffsetTrimmed, "the log starts at %d", frame.GetStartOffset())
			}
		}
		for _, r := range frame.GetRecords() {
			s.apply(r)
			if !s.created {
				f.state = nil
				return isLog, nil
			}
			f.state = s // if the read fails, the next one continues here
		}
		if frame.GetRecordCount() > 0 {
			s.end = max(s.end, frame.GetNextOffset())
		}
		if s.end >= until {
			break
		}
	}
	f.state = s
	if s.end == 0 {
		return isEmpty, nil
	}
	return isStream, nil
}

// trimmed reports the kind of a log whose first records are trimmed, by the note of its first record.
func (h Handler) trimmed(ctx context.Context, log string) (found, error) {
	frames, err := h.Logs.Read(ctx, &strandlinev1.ReadRequest{Log: log, MaxRecords: 1})
	if err != nil {
		return 0, err
	}
	for {
		frame, err := frames.Recv()
		if err != nil {
			return isLog, nil // no records; if the log has another problem, reading it returns that
		}
		for _, r := range frame.GetRecords() {
			if _, ok := noteOf(r); ok {
				return isGone, nil
			}
			return isLog, nil
		}
	}
}

// reasonOf returns the reason of an error of a call; 0: unknown.
func reasonOf(err error) record.Reason {
	var r *record.Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return reasonNamed(info.GetReason())
		}
	}
	return 0
}

func reasonNamed(name string) record.Reason {
	for _, r := range record.Reasons() {
		if r.String() == name {
			return r
		}
	}
	return 0
}
