package embed_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"strandline.dev/client"
	"strandline.dev/embed"
)

func Example() {
	ctx := context.Background()
	directory, err := os.MkdirTemp("", "embedded-*") // to keep the records, one that stays
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)

	cluster, err := embed.Open(ctx, directory, embed.WithNodes(3))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := cluster.Client(client.WithRetryTime(time.Minute)) // on a busy machine nobody may lead for a while
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if _, err := c.Admin().CreateLog(ctx, "orders", client.LogConfig{}); err != nil {
		log.Fatal(err)
	}
	p, err := c.Producer(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	offset, err := p.Append(ctx, []byte("paid")) // returns when two of the three have it on disk
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	r, err := c.Reader(ctx, "orders", client.WithStartOffset(offset))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	record, err := r.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d: %s\n", record.Offset, record.Value)
	// Output: 0: paid
}
