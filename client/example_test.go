package client_test

import (
	"context"
	"fmt"
	"log"

	"strandline.dev/client"
)

// The README shows the body of this example; a test keeps the two equal.
func Example() {
	ctx := context.Background()
	c, err := client.Dial([]string{"127.0.0.1:7171"})
	if err != nil {
		log.Fatal(err)
	}
	p, err := c.Producer(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	offset, err := p.Append(ctx, []byte("paid")) // waits until it is durable
	if err != nil {
		log.Fatal(err)
	}
	future, err := p.Send(ctx, client.Record{Value: []byte("shipped")}) // many in flight, in order
	if err != nil {
		log.Fatal(err)
	}
	if _, err := future.Offset(ctx); err != nil {
		log.Fatal(err)
	}

	r, err := c.Reader(ctx, "orders", client.WithStartOffset(offset), client.WithFollow())
	if err != nil {
		log.Fatal(err)
	}
	for {
		record, err := r.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", record.Offset, record.Value)
	}
}
