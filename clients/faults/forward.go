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
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	for _, token := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
	}
	target, err := n.target.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, full)
	if err != nil {
		return n.server.failure(err)
	}
	if name == "Append" {
		return (&appending{node: n, client: client, target: target, turns: make(chan turn, 1024)}).run()
	}
	c := &call{node: n, name: name, client: client, target: target}
	err = c.run()
	if client.Context().Err() != nil {
		n.server.noteLeft(name)
	}
	return err
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
	left := c.node.server.enter(c.name)
	defer left()
	switch rule.Do {
	case CutBefore:
		return c.node.cut()
	case Refuse, Status:
		return rule.status()
	case Hold:
		return hold(c.client)
	case ForgetFilter:
		var q strandlinev1.ReadRequest
		if err := proto.Unmarshal(request, &q); err != nil {
			return err
		}
		q.Filter, q.Projection = nil, nil
		whole, err := proto.Marshal(&q)
		if err != nil {
			return err
		}
		request = whole
	case Pages:
		var q strandlinev1.ListLogsRequest
		if err := proto.Unmarshal(request, &q); err != nil {
			return err
		}
		q.Limit = min(q.Limit, 1) // 0 stays: such a client takes one answer for all
		whole, err := proto.Marshal(&q)
		if err != nil {
			return err
		}
		request = whole
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
		left() // before a client that has its answer can ask again
		if err := c.pass(answer, rule.Do); err != nil {
			if errors.Is(err, errEnd) {
				return nil
			}
			return err
		}
		if rule.Do == EndAfter {
			return nil
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
	// like adds a frame of so many records of [first, next).
	like := func(first, next int64, count int) *strandlinev1.ReadResponse {
		f := &strandlinev1.ReadResponse{
			FirstOffset: first, RecordCount: int32(count), EndOffset: frame.EndOffset, StartOffset: frame.StartOffset,
			Age: frame.Age, LogId: frame.LogId,
		}
		if frame.NextOffset != nil {
			f.NextOffset = &next
		}
		all = append(all, f)
		return f
	}
	for _, r := range frame.Records {
		like(r.Offset, r.Offset+1, 1).Records = []*strandlinev1.Record{r}
	}
	for rest := frame.Batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if err != nil {
			return []*strandlinev1.ReadResponse{frame}
		}
		first := max(int64(batch.BaseOffset()), frame.FirstOffset)
		next := min(int64(batch.End()), frame.FirstOffset+int64(frame.RecordCount))
		count := int(next - first)
		if frame.NextOffset != nil { // it may have gaps
			count = batch.Count()
			for r := range batch.Selected {
				next = int64(r.Offset) + 1
			}
		}
		like(first, next, count).Batches = batch
		rest = after
	}
	if frame.NextOffset != nil {
		join(all, frame)
	}
	return all
}

// join makes frames of a read with a filter follow each other, as the frame did that they are of.
func join(all []*strandlinev1.ReadResponse, of *strandlinev1.ReadResponse) {
	at, failed := of.FirstOffset, of.Failed
	all[len(all)-1].NextOffset = of.NextOffset
	for _, f := range all {
		f.FirstOffset, at = at, f.GetNextOffset()
		for len(failed) > 0 && failed[0].Offset < at {
			f.Failed, failed = append(f.Failed, failed[0]), failed[1:]
		}
	}
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
	case Lags:
		f.EndOffset = f.FirstOffset + int64(f.RecordCount)
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
