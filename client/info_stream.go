package client

import (
	"context"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// WatchInfo yields the log's description now and after changes, at most once
// per interval (0: the server's default of 1 s), until ctx ends or the loop is
// left. A broken connection, or a node that stands still, ends it with an error.
func (a *Admin) WatchInfo(ctx context.Context, log string, interval time.Duration) iter.Seq2[LogInfo, error] {
	return func(yield func(LogInfo, error) bool) {
		request := &strandlinev1.WatchInfoRequest{Log: log}
		if interval > 0 {
			request.MinInterval = durationpb.New(interval)
		}
		watched := stateStream[strandlinev1.WatchInfoResponse]{admin: a, log: log, open: func(ctx context.Context, conn *grpc.ClientConn) (grpc.ServerStreamingClient[strandlinev1.WatchInfoResponse], error) {
			return strandlinev1.NewLogServiceClient(conn).WatchInfo(ctx, request)
		}}
		if err := watched.each(ctx, func(answer *strandlinev1.WatchInfoResponse) bool {
			info := answer.Info
			if info == nil {
				info = new(strandlinev1.LogInfo)
			}
			return yield(fromLogInfo(info), nil)
		}); err != nil {
			yield(LogInfo{}, err)
		}
	}
}

// stateStream is a stream on which one node shows a state of a log as it changes.
type stateStream[A any] struct {
	admin *Admin
	log   string
	open  func(context.Context, *grpc.ClientConn) (grpc.ServerStreamingClient[A], error)
	// lasting is set if the stream is opened again, on another node, when it breaks or the node no
	// longer leads the log.
	lasting bool

	stream grpc.ServerStreamingClient[A]
	peer   *peer
	end    context.CancelFunc
	opened time.Time
	pauses *pauses
}

// briefStream is how long a stream lasts that is opened again after a pause: a node that ends each after
// its first state would be called as fast as it answers.
const briefStream = time.Second

// each calls yield with each state until that returns false, which is no error, or the stream
// ends.
func (s *stateStream[A]) each(ctx context.Context, yield func(*A) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		answer  *A
		renewal renewal
	)
	// The first answer is a part of finding a node that answers.
	open := func() error {
		return s.admin.try(ctx, toLeader{s.admin.client.peers, s.log}, repeatedly, func(attended context.Context, p *peer) (err error) {
			if err = s.begin(ctx, p); err == nil {
				answer, err = s.receive(attended)
			}
			if err != nil && err != io.EOF {
				return renewal.once(fromRPC(err))
			}
			return nil
		})
	}
	s.pauses = newPauses()
	err := open()
	for err == nil && answer != nil {
		renewal = false
		if !yield(answer) {
			return nil
		}
		answer, err = s.next(ctx)
		if err == nil {
			continue
		}
		ended := err == io.EOF
		if ended && !s.lasting {
			return nil
		}
		failure := renewal.once(fromRPC(err))
		err = failure
		if failure.renewed() || s.lasting && ctx.Err() == nil && (ended || failure.again() || failure.elsewhere()) {
			if err = s.rest(ctx); err == nil {
				err = open()
			}
		}
	}
	if err != nil {
		return fromRPC(err)
	}
	return nil
}

// rest pauses before the stream is opened again, if it has not lasted.
func (s *stateStream[A]) rest(ctx context.Context) error {
	if time.Since(s.opened) >= briefStream {
		s.pauses = newPauses()
		return nil
	}
	if s.pauses.wait(ctx, s.peer) != nil {
		return cancelled(ctx, NotDone)
	}
	return nil
}

func (s *stateStream[A]) begin(ctx context.Context, p *peer) error {
	ctx, end := context.WithCancel(ctx)
	stream, err := s.open(ctx, p.conn)
	if err != nil {
		end()
		return err
	}
	s.stream, s.peer, s.end, s.opened = stream, p, end, time.Now()
	return nil
}

// receive waits for a state until ctx ends. After an error the stream is over.
func (s *stateStream[A]) receive(ctx context.Context) (*A, error) {
	stop := context.AfterFunc(ctx, s.end)
	answer, err := s.stream.Recv()
	if !stop() && err == nil {
		err = cancelled(ctx, NotDone)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return answer, nil
}

// next is receive that leaves a node which stands still: one at the end of a quiet log has nothing to say.
func (s *stateStream[A]) next(ctx context.Context) (answer *A, err error) {
	p := s.admin.client.peers
	if !others(p, s.peer.address) {
		return s.receive(ctx)
	}
	w := p.waits
	w.suspect, w.again = w.quiet, w.quiet
	leads := "" // any node may show what it knows
	if s.lasting {
		leads = s.log
	}
	look := func(ctx context.Context) *Error {
		if s.peer.isHeard(ctx, w.answer/2) && !s.lasting {
			return nil
		}
		return forsake(ctx, p, s.peer, leads, w.answer)
	}
	err = w.attend(ctx, look, func(ctx context.Context) error {
		answer, err = s.receive(ctx)
		return err
	})
	return answer, err
}
