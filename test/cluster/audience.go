package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// audience reads what the writers append while they do, again and again from where it came to up
// to the end, by turns from the leader and from a follower. Each of its reads has to know
// everything that was acknowledged before it began, but for those of LoadOptions.Near.
type audience struct {
	load   *Load
	number int
	client *client.Client
	next   int64
}

// run reads until ctx ends.
func (a *audience) run(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		options := []client.ReaderOption{client.WithStartOffset(a.next)}
		if turn%2 == 1 {
			options = append(options, client.WithPreferFollower())
		}
		event := history.Event{Client: fmt.Sprint("reader ", a.number), Verb: history.Read, Log: a.load.options.Log, From: new(a.next)}
		if near := a.load.options.Near; near != "" && turn%3 == 2 {
			options = append(options, client.WithNearest(near), client.WithAnyReplica())
			event.Consistency = history.Any
		}
		call := a.load.history.Invoke(event)
		call.Return(a.read(ctx, call, options))
		if pause(ctx) != nil {
			return
		}
	}
}

// read is one read to the end. It leaves in next the offset that it reached.
func (a *audience) read(ctx context.Context, call *history.Call, options []client.ReaderOption) history.Event {
	reader, err := a.client.Reader(ctx, a.load.options.Log, options...)
	if err != nil {
		return history.Event{Outcome: history.Failed}
	}
	defer reader.Close()
	for {
		batch, err := reader.NextBatch(ctx)
		switch trimmed := (*client.Error)(nil); {
		case errors.Is(err, io.EOF):
			return history.Event{Outcome: history.OK, End: new(a.next)}
		case errors.As(err, &trimmed) && trimmed.Reason == client.ErrOffsetTrimmed.Reason:
			a.next = trimmed.Start
			return history.Event{Outcome: history.Failed, Reason: trimmed.Reason, Start: &trimmed.Start}
		case err != nil:
			return history.Event{Outcome: history.Failed}
		}
		call.Frame(frameOf(batch))
		a.next = batch[len(batch)-1].Offset + 1
	}
}

func frameOf(batch []client.Record) history.Event {
	hashes := make(history.Hashes, len(batch))
	for i, r := range batch {
		hashes[i] = history.Hash(r.Key, r.Value)
	}
	return history.Event{First: new(batch[0].Offset), Hashes: hashes}
}
