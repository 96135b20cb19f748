package chaos

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/test/cluster"
	"strandline.dev/test/history"
)

// readAsLibrary reads with the client library, which goes from node to node.
func readAsLibrary(v *life) {
	v.with(func(c *client.Client) {
		log := logs[v.dice.IntN(len(logs))]
		for from := v.somewhere(log); v.ctx.Err() == nil; {
			event := history.Event{Client: v.name, Verb: history.Read, Log: log, From: new(from)}
			opts := []client.ReaderOption{client.WithStartOffset(from)}
			switch v.dice.IntN(4) {
			case 0:
				opts = append(opts, client.WithPreferFollower())
			case 1:
				opts = append(opts, client.WithAnyReplica(), client.WithPreferFollower())
				event.Consistency = history.Any
			case 2:
				least := v.load.ends[log].Load()
				opts = append(opts, client.WithAtLeast(least))
				event.Consistency, event.Least = history.AtLeast, least
			}
			call := v.load.recorder.Invoke(event)
			var answer history.Event
			answer, from = v.follow(c, call, log, from, opts)
			call.Return(answer)
			wait(v.ctx, time.Duration(v.dice.IntN(30))*time.Millisecond)
		}
	})
}

// somewhere is an offset to begin at.
func (v *life) somewhere(log string) int64 {
	return max(0, v.load.ends[log].Load()-int64(v.dice.IntN(kept(log)/10)))
}

// follow is one read. It returns its end, and where the next continues.
func (v *life) follow(c *client.Client, call *history.Call, log string, from int64, opts []client.ReaderOption) (history.Event, int64) {
	ctx, cancel := context.WithTimeout(v.ctx, readTime)
	defer cancel()
	reader, err := c.Reader(ctx, log, opts...)
	if err != nil {
		return history.Event{Outcome: history.Failed}, from
	}
	defer reader.Close()
	for {
		batch, err := reader.NextBatch(ctx)
		var e *client.Error
		switch {
		case errors.Is(err, io.EOF):
			return history.Event{Outcome: history.OK, End: new(from)}, from
		case errors.Is(err, client.ErrOffsetTrimmed) && errors.As(err, &e):
			return history.Event{Outcome: history.Failed, Reason: e.Reason, Start: &e.Start}, e.Start
		case err != nil:
			return history.Event{Outcome: history.Failed}, from
		}
		hashes := make(history.Hashes, len(batch))
		for i, r := range batch {
			hashes[i] = history.Hash(r.Key, r.Value)
		}
		call.Frame(history.Event{First: new(batch[0].Offset), Hashes: hashes})
		from = batch[len(batch)-1].Offset + 1
	}
}

// readRaw reads from one node at a time, and keeps every word that it says.
func readRaw(v *life) {
	log := logs[v.dice.IntN(len(logs))]
	addresses := v.load.places.Load().grpc
	node := addresses[v.dice.IntN(len(addresses))]
	connection, err := dial(node)
	if err != nil {
		v.load.t.Errorf("client %s: %v", v.name, err)
		return
	}
	defer connection.Close()
	for from := v.somewhere(log); v.ctx.Err() == nil; {
		request := &strandlinev1.ReadRequest{Log: log, From: &strandlinev1.ReadRequest_Offset{Offset: from}}
		event := history.Event{Client: v.name, Node: node, Verb: history.Read, Log: log, From: new(from)}
		switch v.dice.IntN(3) {
		case 0:
			request.Consistency = &strandlinev1.ReadRequest_Level{Level: strandlinev1.ReadConsistency_READ_CONSISTENCY_ANY}
			event.Consistency = history.Any
		case 1:
			event.Consistency, event.Least = history.AtLeast, v.load.ends[log].Load()
			request.Consistency = &strandlinev1.ReadRequest_AtLeastOffset{AtLeastOffset: event.Least}
		}
		ctx, cancel := context.WithTimeout(v.ctx, readTime)
		call := v.load.recorder.Invoke(event)
		var answer history.Event
		answer, from, err = readOnce(ctx, connection, request, call, from)
		cancel()
		call.Return(answer)
		if err != nil {
			v.load.t.Errorf("client %s got from node %s what no node may send: %v", v.name, node, err)
		}
		if answer.Outcome == history.Failed {
			from = max(from, v.somewhere(log)) // it may have been trimmed
		}
		wait(v.ctx, time.Duration(v.dice.IntN(30))*time.Millisecond)
	}
}

func dial(node string) (*grpc.ClientConn, error) {
	return grpc.NewClient(node, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
}

// readOnce is a read of stored batches from one node, to its end. It returns that
// end, where the next read continues, and what is wrong with the bytes that came.
func readOnce(ctx context.Context, node *grpc.ClientConn, request *strandlinev1.ReadRequest, call *history.Call, from int64) (history.Event, int64, error) {
	request.Format = strandlinev1.ReadFormat_READ_FORMAT_BATCHES
	stream, err := strandlinev1.NewLogServiceClient(node).Read(ctx, request)
	if err != nil {
		return history.Event{Outcome: history.Failed, Reason: reasonOf(err)}, from, nil
	}
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return history.Event{Outcome: history.OK, End: new(from)}, from, nil
		}
		if err != nil {
			return history.Event{Outcome: history.Failed, Reason: reasonOf(err)}, from, nil
		}
		hashes, err := hashesOf(frame)
		if err != nil {
			return history.Event{Outcome: history.Failed}, from, err
		}
		call.Frame(history.Event{First: &frame.FirstOffset, Start: &frame.StartOffset, End: &frame.EndOffset, Hashes: hashes})
		from = frame.FirstOffset + int64(len(hashes))
	}
}

// hashesOf are those of a frame's records.
func hashesOf(frame *strandlinev1.ReadResponse) (hashes history.Hashes, err error) {
	for one, err := range cluster.RecordsIn(frame) {
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, history.Hash(one.Key, one.Value))
	}
	return hashes, nil
}
