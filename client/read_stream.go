package client

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/transport/wire"
)

// readStream is one stream of frames. The transport receives ahead of what is
// asked for, up to its window.
type readStream struct {
	grpc.ClientStream
	peer    *peer
	peers   *peers
	leads   string // the log whose leader is read from; empty: another node may serve as well
	life    context.Context
	leave   context.CancelCauseFunc // ends life, with the reason why the node is left or nil
	silence time.Duration           // without a frame after which the server counts as lost; 0: for ever
	over    bool                    // given up, perhaps while a frame came
	placed  atomic.Bool             // a frame has come

	watch *time.Timer   // looks after the node while a frame is waited for; nil: there is no other
	waits atomic.Uint64 // odd while a frame is waited for; it changes with each
}

// openReadStream opens a stream that outlives ctx, which bounds the opening: a
// connection takes only so many streams at a time.
func openReadStream(ctx context.Context, p *peers, on route, peer *peer, request *strandlinev1.ReadRequest, silence time.Duration) (*readStream, error) {
	life, leave := context.WithCancelCause(context.Background())
	s := &readStream{peer: peer, peers: p, leads: on.leads(), life: life, leave: leave, silence: silence}
	if others(p, peer.address) {
		s.watch = time.AfterFunc(time.Hour, s.look)
	}
	stop := context.AfterFunc(ctx, s.cancel)
	attended := s.attend()
	var err error
	if s.ClientStream, err = peer.stream(life, &grpc.StreamDesc{ServerStreams: true}, strandlinev1.LogService_Read_FullMethodName); err == nil {
		err = s.SendMsg(request)
	}
	if err == nil {
		err = s.CloseSend()
	}
	attended()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, io.EOF) { // with EOF, RecvMsg returns the reason
		defer leave(nil)
		return nil, s.why(ctx, err)
	}
	return s, nil
}

func (s *readStream) cancel() { s.leave(nil) }

// receive waits for a frame. The stream ends when ctx ends or the server has
// been silent for too long.
func (s *readStream) receive(ctx context.Context, f *wire.ReadFrame) error {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, s.cancel)
		defer func() { s.over = !stop() || s.over }()
	}
	attended := s.attend()
	err := s.await(ctx, f)
	attended()
	if err != nil {
		return s.why(ctx, err)
	}
	s.placed.Store(true)
	return nil
}

// await is receive within the time that a server may be silent.
func (s *readStream) await(ctx context.Context, f *wire.ReadFrame) error {
	if s.silence == 0 {
		return s.RecvMsg(f)
	}
	silent := time.AfterFunc(s.silence, s.cancel)
	err := s.RecvMsg(f)
	if !silent.Stop() {
		s.over = true
		if err != nil && ctx.Err() == nil {
			return unreachable(NotDone, "the server was silent for "+s.silence.String())
		}
	}
	return err
}

// brokenStreams bounds how often in a row servers that can be reached may break
// a stream before its first frame, without saying that another try may help.
const brokenStreams = 10

// trouble is what a reader has had since its last frame.
type trouble struct {
	began   time.Time
	count   int // failures
	broken  int // of those, on a stream that was open, without a reason given
	pauses  *pauses
	renewal renewal
}

func noTrouble() trouble { return trouble{pauses: newPauses()} }

// worthAnother reports whether to open another stream: on each of width nodes, and
// then again. A reader that has had a frame waits for its servers for ever; one
// that has not, or whose bound no replica keeps, for the retry time.
func (t *trouble) worthAnother(failure *Error, reached, placed bool, width int, retryTime time.Duration) bool {
	if t.count++; t.count == 1 {
		t.began = time.Now()
	}
	explained := failure.Retryable && failure.Reason != ErrUnreachable.Reason
	if reached && !explained {
		t.broken++
	}
	patient := placed && failure.Reason != ErrStale.Reason
	return t.broken <= brokenStreams && (patient || t.count < width || time.Since(t.began) < retryTime)
}
