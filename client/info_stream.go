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
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request := &strandlinev1.WatchInfoRequest{Log: log}
		if interval > 0 {
			request.MinInterval = durationpb.New(interval)
		}
		var (
			stream  *infoStream
			answer  *strandlinev1.LogInfo
			renewal renewal
		)
		// The first answer is a part of finding a node that answers.
		open := func() error {
			return a.try(ctx, toLeader{a.client.peers, log}, repeatedly, func(attended context.Context, p *peer) (err error) {
				if stream, err = openInfoStream(ctx, p, request); err == nil {
					answer, err = stream.receive(attended)
				}
				if err != nil && err != io.EOF {
					return renewal.once(fromRPC(err))
				}
				return nil
			})
		}
		err := open()
		for err == nil && answer != nil {
			renewal = false
			if !yield(fromLogInfo(answer), nil) {
				return
			}
			if answer, err = stream.next(ctx, a.client.peers); err == io.EOF {
				return
			} else if err != nil {
				failure := renewal.once(fromRPC(err))
				if err = failure; failure.renewed() {
					err = open()
				}
			}
		}
		if err != nil {
			yield(LogInfo{}, fromRPC(err))
		}
	}
}

// infoStream is a stream of descriptions from one node.
type infoStream struct {
	stream grpc.ServerStreamingClient[strandlinev1.WatchInfoResponse]
	peer   *peer
	end    context.CancelFunc
}

func openInfoStream(ctx context.Context, p *peer, request *strandlinev1.WatchInfoRequest) (*infoStream, error) {
	ctx, end := context.WithCancel(ctx)
	stream, err := strandlinev1.NewLogServiceClient(p.conn).WatchInfo(ctx, request)
	if err != nil {
		end()
		return nil, err
	}
	return &infoStream{stream, p, end}, nil
}

// receive waits for a description until ctx ends. After an error the stream is over.
func (s *infoStream) receive(ctx context.Context) (*strandlinev1.LogInfo, error) {
	stop := context.AfterFunc(ctx, s.end)
	answer, err := s.stream.Recv()
	if !stop() && err == nil {
		err = cancelled(ctx, NotDone)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	if answer.Info == nil {
		return new(strandlinev1.LogInfo), nil
	}
	return answer.Info, nil
}

// next is receive that leaves a node which stands still: one at the end of a quiet log has nothing to say.
func (s *infoStream) next(ctx context.Context, p *peers) (answer *strandlinev1.LogInfo, err error) {
	if !others(p, s.peer.address) {
		return s.receive(ctx)
	}
	w := p.waits
	w.suspect, w.again = w.quiet, w.quiet
	look := func(ctx context.Context) *Error {
		if s.peer.isHeard(ctx, w.answer/2) {
			return nil
		}
		return forsake(ctx, p, s.peer, "", w.answer)
	}
	err = w.attend(ctx, look, func(ctx context.Context) error {
		answer, err = s.receive(ctx)
		return err
	})
	return answer, err
}
