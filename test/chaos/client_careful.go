package chaos

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
)

const (
	// windowRequests is how many appends of a session are open at most.
	windowRequests = 8
	// attemptTime bounds a request that goes out; it is sent again then.
	attemptTime = 3 * time.Second
	// lease of a session.
	lease = 10 * time.Second
	// settleTime is how long a life may continue after its time, to settle its
	// window.
	settleTime = 10 * time.Second
)

// careful keeps a session by hand, without our library: it sends what has no
// answer again, in order, to one node after the other, until each has its answer;
// and now and then appends to a session that has ended.
func careful(v *life) {
	v.load.recorder.Note(history.Event{Kind: history.Client, Client: v.name, InFlight: windowRequests})
	v.with(func(c *client.Client) {
		call := v.load.recorder.Invoke(history.Event{Client: v.name, Verb: history.OpenSession, Log: ordersLog, Lease: uint32(lease.Milliseconds())})
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		opened, err := c.Admin().OpenSession(ctx, ordersLog, lease)
		cancel()
		v.returned(call, err, history.Event{Session: opened.ID, Epoch: opened.Epoch})
		if err != nil {
			return
		}
		s := &session{life: v, id: opened.ID, epoch: opened.Epoch}
		s.run()
		s.end(c)
	})
}

// session is one, and the requests of it that have no answer yet.
type session struct {
	*life
	id    uint64
	epoch uint32
	next  uint64 // sequence of the next new record
	open  []*request
	over  bool // the log has said so
	node  int  // whose turn it is
}

// request is one append, that is sent as often as it takes.
type request struct {
	first  uint64
	hashes history.Hashes
	body   *strandlinev1.AppendRequest
}

func (s *session) run() {
	for s.ctx.Err() == nil && !s.over {
		s.stream(s.ctx)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for ctx.Err() == nil && !s.over && len(s.open) > 0 {
		s.stream(ctx)
	}
}

// stream appends over one connection with one node until something goes wrong,
// or, once the life's time is up, until everything is settled.
func (s *session) stream(ctx context.Context) {
	addresses := s.load.places.Load().grpc
	s.node++
	connection, err := dial(addresses[s.node%len(addresses)])
	if err != nil {
		return
	}
	defer connection.Close()
	for s.burst(ctx, connection) {
		if s.ctx.Err() != nil && len(s.open) == 0 {
			return
		}
	}
	wait(ctx, time.Duration(10+s.dice.IntN(50))*time.Millisecond)
}

// burst sends what has no answer, and new requests up to the window, and waits
// for the answers. It reports whether the node is worth another.
func (s *session) burst(ctx context.Context, node *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	stream, err := strandlinev1.NewLogServiceClient(node).Append(ctx)
	if err != nil {
		return false
	}
	if s.ctx.Err() == nil {
		for more := s.dice.IntN(windowRequests + 1); len(s.open) < more || len(s.open) == 0; {
			s.add()
		}
	}
	sent := make([]*history.Call, 0, len(s.open))
	defer func() {
		for _, call := range sent {
			call.Return(history.Event{Outcome: history.Unknown})
		}
	}()
	for _, r := range s.open {
		r.body.LowWater = s.open[0].first
		sent = append(sent, s.load.recorder.Invoke(history.Event{
			Client: s.name, Verb: history.Append, Log: ordersLog, Hashes: r.hashes, Session: s.id, Epoch: s.epoch, Sequence: r.first,
			LowWater: r.body.LowWater, Deadline: s.load.recorder.Now() + int64(attemptTime),
		}))
		if stream.Send(r.body) != nil {
			return false
		}
	}
	_ = stream.CloseSend()
	good := true
	for left := s.open; len(left) > 0; left = left[1:] {
		answer, err := stream.Recv()
		if err != nil {
			return false
		}
		call, r := sent[0], left[0]
		sent = sent[1:]
		if a := answer.GetAppended(); a != nil {
			call.Return(placed(a))
			s.load.acknowledged(ordersLog, len(r.hashes), a.EndOffset)
			if good {
				s.open = s.open[1:]
			}
			continue
		}
		refused := cluster.OutcomeOfRefusal(answer.GetRefused())
		call.Return(refused)
		s.load.errors.add(refused)
		good = false
		switch refused.Reason {
		case "SESSION_EXPIRED", "SESSION_NOT_FOUND", "STALE_EPOCH", "OUTCOME_FORGOTTEN":
			s.over = true
		}
	}
	return good
}

func (s *session) add() {
	records, hashes := s.records(1 + s.dice.IntN(10))
	body := &strandlinev1.AppendRequest{Log: ordersLog, SessionId: s.id, Epoch: s.epoch, FirstSequence: s.next}
	for _, r := range records {
		body.Records = append(body.Records, &strandlinev1.Record{Value: r.Value})
	}
	s.open = append(s.open, &request{s.next, hashes, body})
	s.next += uint64(len(records))
}

// placed is what an acknowledgement says.
func placed(a *strandlinev1.Appended) history.Event {
	e := history.Event{Outcome: history.OK}
	for _, r := range a.Ranges {
		e.Ranges = append(e.Ranges, [2]int64{r.First, r.End})
	}
	if e.Ranges == nil {
		e.First = &a.FirstOffset
	}
	return e
}

// end settles what was left open with the log, closes the session, and appends to
// it once more.
func (s *session) end(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if len(s.open) > 0 {
		s.resolve(ctx, c)
	}
	call := s.load.recorder.Invoke(history.Event{Client: s.name, Verb: history.CloseSession, Log: ordersLog, Session: s.id})
	err := c.Admin().CloseSession(ctx, ordersLog, client.Session{ID: s.id})
	s.returned(call, err, history.Event{})
	if err == nil && len(s.open) == 0 && s.dice.IntN(2) == 0 {
		s.haunt()
	}
}

func (s *session) resolve(ctx context.Context, c *client.Client) {
	first := s.open[0].first
	call := s.load.recorder.Invoke(history.Event{
		Client: s.name, Verb: history.Resolve, Log: ordersLog, Session: s.id, Epoch: s.epoch, Sequence: first,
	})
	found, err := c.Admin().Resolve(ctx, ordersLog, client.SessionPosition{Session: s.id, Epoch: s.epoch, Next: first}, true)
	answer := history.Event{State: states[found.State]}
	if found.State == client.Committed {
		answer.First = &found.Offset
	}
	s.returned(call, err, answer)
}

var states = map[client.ResolveState]history.State{
	client.Committed: history.Committed, client.Pending: history.Pending, client.NotNow: history.NotNow,
	client.Never: history.Never, client.Forgotten: history.Gone,
}

// haunt sends one more request, as a client does that does not know of the end.
func (s *session) haunt() {
	addresses := s.load.places.Load().grpc
	connection, err := dial(addresses[s.dice.IntN(len(addresses))])
	if err != nil {
		return
	}
	defer connection.Close()
	s.add()
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	r := s.open[0]
	r.body.LowWater = r.first
	call := s.load.recorder.Invoke(history.Event{
		Client: s.name, Verb: history.Append, Log: ordersLog, Hashes: r.hashes, Session: s.id, Epoch: s.epoch, Sequence: r.first,
		LowWater: r.body.LowWater,
	})
	call.Return(func() history.Event {
		stream, err := strandlinev1.NewLogServiceClient(connection).Append(ctx)
		if err != nil || stream.Send(r.body) != nil {
			return history.Event{Outcome: history.Unknown}
		}
		_ = stream.CloseSend()
		answer, err := stream.Recv()
		switch {
		case err != nil:
			return history.Event{Outcome: history.Unknown, Reason: reasonOf(err)}
		case answer.GetAppended() != nil:
			return placed(answer.GetAppended())
		}
		return cluster.OutcomeOfRefusal(answer.GetRefused())
	}())
}

// reasonOf is the reason that a server gave for the end of a call; empty: none.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}
