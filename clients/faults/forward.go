package faults

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/record"
)

// handle serves one call.
func (n *node) handle(_ any, client grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(client)
	name := shortName(full)
	md, _ := metadata.FromIncomingContext(client.Context())
	if tokens := md.Get("authorization"); len(tokens) > 0 {
		n.server.mu.Lock()
		n.server.tokens[name] = tokens[0]
		n.server.mu.Unlock()
	}
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	target, err := n.target.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, full)
	if err != nil {
		return n.server.failure(err)
	}
	if name == "Append" {
		return (&appending{node: n, client: client, target: target, turns: make(chan turn, 1024)}).run()
	}
	c := &call{node: n, name: name, client: client, target: target}
	return c.run()
}

// call is one that is no append: one request, and one answer or many.
type call struct {
	node   *node
	name   string
	client grpc.ServerStream
	target grpc.ClientStream
	split  bool
}

func (c *call) run() error {
	var request []byte
	if err := c.client.RecvMsg(&request); err != nil {
		return err
	}
	rule := c.node.server.meet(c.name, c.node.number)
	switch rule.Do {
	case CutBefore:
		return c.node.cut()
	case Refuse, Status:
		return rule.status()
	case Hold:
		return hold(c.client)
	}
	if err := c.target.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return c.node.server.failure(err)
	}
	if err := c.target.CloseSend(); err != nil {
		return err
	}
	for {
		var answer []byte
		err := c.target.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.node.server.failure(err)
		}
		switch rule.Do {
		case CutAfter:
			return c.node.cut()
		case RefuseAfter, StatusAfter:
			return rule.status()
		case Delay:
			if err := wait(c.client, rule.delay()); err != nil {
				return err
			}
		}
		if err := c.pass(answer, rule.Do); err != nil {
			if errors.Is(err, errEnd) {
				return nil
			}
			return err
		}
	}
}

// errEnd ends a stream without an error.
var errEnd = errors.New("the stream is to end")

// pass hands an answer to the client.
func (c *call) pass(answer []byte, fault Fault) error {
	if c.name != "Read" {
		changed, err := c.node.server.answer(c.name, answer, fault)
		if err != nil {
			return err
		}
		return c.client.SendMsg(&changed)
	}
	var frame strandlinev1.ReadResponse
	if err := proto.Unmarshal(answer, &frame); err != nil {
		return err
	}
	if frame.RecordCount == 0 {
		return c.client.SendMsg(&answer)
	}
	for _, f := range c.frames(&frame) {
		if err := c.frame(f, fault); err != nil {
			return err
		}
	}
	return nil
}

// frames are those that a frame of the node becomes.
func (c *call) frames(frame *strandlinev1.ReadResponse) []*strandlinev1.ReadResponse {
	c.node.server.mu.Lock()
	for _, r := range c.node.server.rules {
		c.split = c.split || r.On == "Frame" && r.Do == Split
	}
	c.node.server.mu.Unlock()
	if !c.split {
		return []*strandlinev1.ReadResponse{frame}
	}
	var all []*strandlinev1.ReadResponse
	like := func(first int64, count int) *strandlinev1.ReadResponse {
		f := &strandlinev1.ReadResponse{
			FirstOffset: first, RecordCount: int32(count), EndOffset: frame.EndOffset, StartOffset: frame.StartOffset,
			Age: frame.Age, LogId: frame.LogId,
		}
		all = append(all, f)
		return f
	}
	for _, r := range frame.Records {
		like(r.Offset, 1).Records = []*strandlinev1.Record{r}
	}
	for rest := frame.Batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if err != nil {
			return []*strandlinev1.ReadResponse{frame}
		}
		first, end := max(int64(batch.BaseOffset()), frame.FirstOffset), int64(batch.BaseOffset())+int64(batch.Count())
		like(first, int(min(end, frame.FirstOffset+int64(frame.RecordCount))-first)).Batches = batch
		rest = after
	}
	return all
}

// frame sends one to the client, as the rules want it.
func (c *call) frame(f *strandlinev1.ReadResponse, fault Fault) error {
	rule := c.node.server.meet("Frame", c.node.number)
	times := 1
	switch rule.Do {
	case CutBefore:
		return c.node.cut()
	case Status:
		return rule.status()
	case End:
		return errEnd
	case Hold:
		return hold(c.client)
	case Drop:
		return nil
	case Twice:
		times = 2
	case Delay:
		if err := wait(c.client, rule.delay()); err != nil {
			return err
		}
	}
	c.node.server.change(f.ProtoReflect(), rule.Do == Unknown || fault == Unknown)
	data, err := proto.Marshal(f)
	for range times {
		if err == nil {
			err = c.client.SendMsg(&data)
		}
	}
	return err
}

// cut resets the node's connections. The call, which has ended with them, gets an error
// that nobody sees.
func (n *node) cut() error {
	n.link.Cut()
	return status.Error(codes.Unavailable, "cut")
}

// hold answers never: it returns when the client has gone.
func hold(client grpc.ServerStream) error {
	<-client.Context().Done()
	return client.Context().Err()
}

// wait lets time pass, unless the client goes.
func wait(client grpc.ServerStream, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-client.Context().Done():
		return client.Context().Err()
	}
}
