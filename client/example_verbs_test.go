package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"strandline.dev/client"
	"strandline.dev/embed"
)

// example runs f with a client of a node inside of this process that has a log
// "orders". A program of its own begins with client.Dial.
func example(f func(ctx context.Context, c *client.Client) error) {
	directory, err := os.MkdirTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	ctx := context.Background()
	node, err := embed.Open(ctx, directory)
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	c, err := node.Client()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err = c.Admin().CreateLog(ctx, "orders", client.LogConfig{}); err == nil {
		err = f(ctx, c)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Many records are in flight at once, in order; Flush waits for their answers.
func ExampleProducer() {
	example(func(ctx context.Context, c *client.Client) error {
		p, err := c.Producer(ctx, "orders", client.WithCompression(client.Zstd))
		if err != nil {
			return err
		}
		for _, value := range []string{"paid", "packed", "shipped"} {
			done := func(offset int64, err error) { fmt.Println(offset, value, err) }
			if err := p.SendFunc(ctx, client.Record{Value: []byte(value)}, done); err != nil {
				return err
			}
		}
		return p.Close(ctx)
	})
	// Output:
	// 0 paid <nil>
	// 1 packed <nil>
	// 2 shipped <nil>
}

// A read without WithFollow ends with io.EOF at the end of the log.
func ExampleReader() {
	example(func(ctx context.Context, c *client.Client) error {
		p, err := c.Producer(ctx, "orders")
		if err != nil {
			return err
		}
		if _, err := p.AppendBatch(ctx, []client.Record{{Value: []byte("paid")}, {Value: []byte("shipped")}}); err != nil {
			return err
		}
		r, err := c.Reader(ctx, "orders", client.WithStartOffset(1), client.WithMaxRecords(1))
		if err != nil {
			return err
		}
		defer r.Close()
		record, err := r.Next(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%d of %d: %s\n", record.Offset, r.End(), record.Value)
		return p.Close(ctx)
	})
	// Output: 1 of 2: shipped
}

// An append with a condition is done only if nobody has appended meanwhile.
func ExampleWithExpectedEnd() {
	example(func(ctx context.Context, c *client.Client) error {
		p, err := c.Producer(ctx, "orders")
		if err != nil {
			return err
		}
		for _, value := range []string{"reserve seat 7", "reserve seat 7 too"} {
			_, err := p.AppendBatch(ctx, []client.Record{{Value: []byte(value)}}, client.WithExpectedEnd(0))
			var e *client.Error
			switch {
			case errors.Is(err, client.ErrEndMismatch) && errors.As(err, &e):
				fmt.Printf("%s: refused, the log ends at %d by now\n", value, e.End)
			case err != nil:
				return err
			default:
				fmt.Printf("%s: done\n", value)
			}
		}
		return p.Close(ctx)
	})
	// Output:
	// reserve seat 7: done
	// reserve seat 7 too: refused, the log ends at 1 by now
}

// Resolve returns the outcome of an append whose answer was lost, by its position, which
// an error with outcome MaybeDone has.
func ExampleAdmin_Resolve() {
	example(func(ctx context.Context, c *client.Client) error {
		p, err := c.Producer(ctx, "orders")
		if err != nil {
			return err
		}
		at := p.Position()
		if _, err := p.Append(ctx, []byte("paid")); err != nil {
			return err
		}
		for range 2 {
			found, err := c.Admin().Resolve(ctx, "orders", at, true)
			if err != nil {
				return err
			}
			fmt.Println(found.State, found.Offset)
			at.Next++ // which was never sent, and with final never will be
		}
		return p.Close(ctx)
	})
	// Output:
	// committed 0
	// never 0
}

// Of two programs that both believe to be the only writer, the older one is fenced.
func ExampleAdmin_AcquireWriter() {
	example(func(ctx context.Context, c *client.Client) error {
		var producers []*client.Producer
		for range 2 {
			term, _, err := c.Admin().AcquireWriter(ctx, "orders")
			if err != nil {
				return err
			}
			p, err := c.Producer(ctx, "orders", client.WithWriterTerm(term))
			if err != nil {
				return err
			}
			producers = append(producers, p)
		}
		for i, p := range producers {
			_, err := p.Append(ctx, []byte("paid"))
			fmt.Printf("writer %d is fenced: %v\n", i+1, errors.Is(err, client.ErrFenced))
			if err := p.Close(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// writer 1 is fenced: true
	// writer 2 is fenced: false
}

// A view that is built from the log keeps what it still has to read, and shows others where
// its newest snapshot lies.
func ExampleClient_Hold() {
	example(func(ctx context.Context, c *client.Client) error {
		p, err := c.Producer(ctx, "orders")
		if err != nil {
			return err
		}
		for _, value := range []string{"paid", "packed", "shipped"} {
			if _, err := p.Append(ctx, []byte(value)); err != nil {
				return err
			}
		}
		h, err := c.Hold(ctx, "orders", client.HoldInfo{Name: "view", Offset: client.HoldFromStart, Lease: time.Minute})
		if err != nil {
			return err
		}
		_, _, err = c.Admin().Trim(ctx, "orders", 2, false)
		var e *client.Error
		if errors.Is(err, client.ErrHeld) && errors.As(err, &e) {
			fmt.Printf("hold %q keeps all from %d\n", e.Hold.Name, e.Hold.Offset)
		}
		// The view has a snapshot of what is below 2, and needs only what follows.
		if err := h.Move(ctx, 2, []byte("s3://views/orders-2")); err != nil {
			return err
		}
		if _, _, err := c.Admin().Trim(ctx, "orders", 2, false); err != nil {
			return err
		}
		// A reader that comes too late begins there as well.
		r, err := c.Reader(ctx, "orders", client.WithStartOffset(0))
		if err == nil {
			_, err = r.Next(ctx)
			r.Close()
		}
		if errors.Is(err, client.ErrOffsetTrimmed) && errors.As(err, &e) {
			fmt.Printf("load %s, then read from %d\n", e.Hold.Pointer, e.Hold.Offset)
		}
		if err := h.Release(ctx); err != nil {
			return err
		}
		return p.Close(ctx)
	})
	// Output:
	// hold "view" keeps all from 0
	// load s3://views/orders-2, then read from 2
}
