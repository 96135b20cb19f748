package backend

import (
	"context"
	"errors"
	"io"

	"strandline.dev/internal/node/reading"
	"strandline.dev/internal/record"
)

// Fold passes the chunks of [from, until) of a log to fold, which releases each.
func Fold(ctx context.Context, n Node, log string, from, until record.Offset, fold func(*reading.Chunk) error) error {
	r, err := n.Read(ctx, System, log, reading.Request{From: reading.From{Kind: reading.FromOffset, Offset: from}, Until: until})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fold(&c); err != nil {
			return err
		}
	}
}
