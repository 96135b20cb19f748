package chaos

import (
	"context"
	"fmt"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// digestTime bounds the question for one digest, and digestPeriod is the time between two rounds.
const (
	digestTime   = 3 * time.Second
	digestPeriod = 500 * time.Millisecond
)

// compareDigests asks the leader of a log for the digest as of its end, and every node for
// that of its replica as of there.
func compareDigests(v *life) {
	for v.ctx.Err() == nil {
		log := logs[v.dice.IntN(len(logs))]
		at := int64(client.DigestAtEnd)
		v.with(func(c *client.Client) { at = v.digest(v.ctx, "the leader", log, at, c.Digest) })
		if at < 0 {
			continue
		}
		for _, node := range v.load.places.Load().grpc {
			v.digestOn(v.ctx, node, log, at)
		}
		wait(v.ctx, time.Duration(v.dice.Int64N(int64(2*digestPeriod))))
	}
}

// digestOn asks one node for the digest of its own replica. It returns as of where that is, or
// client.DigestAtEnd if there was no answer.
func (v *life) digestOn(ctx context.Context, node, log string, at int64) int64 {
	c, err := client.Dial([]string{node}, client.WithRetryTime(time.Second))
	if err != nil {
		panic(fmt.Sprintf("an address that the harness made: %v", err))
	}
	defer c.Close()
	return v.digest(ctx, node, log, at, c.KnownDigest)
}

func (v *life) digest(ctx context.Context, node, log string, at int64, ask func(context.Context, string, int64) (client.Digest, error)) int64 {
	ctx, cancel := context.WithTimeout(ctx, digestTime)
	defer cancel()
	event := history.Event{Client: v.name, Node: node, Verb: history.Digest, Log: log}
	if at >= 0 {
		event.From = &at
	}
	call := v.load.recorder.Invoke(event)
	d, err := ask(ctx, log, at)
	if err != nil {
		call.Return(history.Event{Outcome: history.Failed}) // it holds no replica, or does not know so much
		return client.DigestAtEnd
	}
	call.Return(history.Event{Outcome: history.OK, Start: &d.Start, Digest: d.String(), Covered: &d.Covered})
	return d.At
}
