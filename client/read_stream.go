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

// readStream is one stream of frames. The transport receives ahead of the requests, up to its
// window.
type readStream struct {
	grpc.ClientStream
	peer    *peer
	peers   *peers
	leads   string // the log whose leader is read from; empty: other nodes can serve the read
	life    context.Context
	leave   context.CancelCauseFunc // ends life, with the reason why the node is given up, or nil
	silence time.Duration           // time without a frame after which the server counts as lost; 0: no limit
	over    bool                    // given up, perhaps while a frame arrived
	placed  atomic.Bool             // a frame has arrived

	watch *time.Timer   // checks the node while waiting for a frame; nil: there is no other node
	waits atomic.Uint64 // odd while waiting for a frame; changes with each frame
}

// openReadStream opens a stream that outlives ctx, which bounds only the opening: the number of
// streams of a connection is limited.
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

// receive waits for a frame. The stream ends when ctx is done or the server has been silent for
// too long.
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

// await is like receive, within the time that a server may be silent.
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

// brokenStreams bounds how often in a row reachable servers may break a stream before its first
// frame, without saying that a retry may help.
const brokenStreams = 10

// trouble records the failures of a reader since its last frame.
type trouble struct {
	began   time.Time
	count   int // number of failures
	broken  int // number of these on an open stream without a reason
	pauses  *pauses
	renewal renewal
}

func noTrouble() trouble { return trouble{pauses: newPauses()} }

// worthAnother reports whether to open another stream: on each of width nodes, and then again. A
// reader that has received a frame waits for its servers without limit; one that has not, or
// whose bound no replica meets, for the retry time.
func (t *trouble) worthAnother(failure *Error, reached, placed bool, width int, retryTime time.Duration) bool {
	if t.count++; t.count == 1 {
		t.began = time.Now()
	}
	explained := failure.Retryable && failure.Reason != ErrUnreachable.Reason
	if reached && !explained {
		t.broken++
	}
	patient := placed && failure.Reason != ErrStale.Reason
	return t.broken <= brokenStreams && (patient || t.count < width || time.Since(t.began) < failure.within(retryTime))
}
