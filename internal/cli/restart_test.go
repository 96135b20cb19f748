package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// kept is what the program keeps on its own disk.
type kept struct {
	at   client.SessionPosition
	base int // the input that has sequence 0 in the epoch
}

// copier copies inputs into a log, each exactly once, over restarts of itself.
// This is the recipe of docs/at-most-once.md.
type copier struct {
	client *client.Client
	log    string
	load   func() (kept, bool)
	save   func(kept) // durable when it returns
}

// open returns a producer and the first input that it is to send.
func (c *copier) open(ctx context.Context) (*client.Producer, int, error) {
	state, restarted := c.load()
	if !restarted {
		return c.begin(ctx, kept{})
	}
	ended, err := c.client.Admin().EndEpoch(ctx, c.log, state.at)
	if err != nil {
		return nil, 0, err
	}
	if !ended.Known {
		return nil, 0, errors.New("the session ended too long ago: read the log to find out where to resume")
	}
	// What is below Next is in the log. Nothing else of that epoch ever will be.
	state.base += int(ended.Next)
	state.at.Epoch, state.at.Next = ended.Epoch, 0
	return c.begin(ctx, state)
}

// begin opens a producer, and keeps where it begins before anything is sent.
func (c *copier) begin(ctx context.Context, state kept) (*client.Producer, int, error) {
	p, err := c.client.Producer(ctx, c.log, client.WithEndOnFailure(), client.WithSession(state.at))
	if errors.Is(err, client.ErrSessionExpired) {
		// It stays ended, so the answer of EndEpoch is final: continue in a new one.
		state.at = client.SessionPosition{LogID: state.at.LogID}
		p, err = c.client.Producer(ctx, c.log, client.WithEndOnFailure(), client.WithSession(state.at))
	}
	if err != nil {
		return nil, 0, err
	}
	state.at = p.Position()
	c.save(state)
	return p, state.base, nil
}

// A program that dies at any moment, and is started again, appends each of its
// inputs exactly once.
func TestAProgramThatIsRestartedAppendsEachInputOnce(t *testing.T) {
	t.Parallel()
	server := startNode(t, t.TempDir())
	server.must("", "log", "create", "orders")
	const inputs = 3000
	random := rand.New(rand.NewPCG(1, 2))
	var disk kept
	onDisk, restarts := false, 0
	for done := false; !done; restarts++ {
		c, err := client.Dial([]string{server.grpc})
		require.NoError(t, err)
		program := copier{
			client: c, log: "orders",
			load: func() (kept, bool) { return disk, onDisk },
			save: func(k kept) { disk, onDisk = k, true },
		}
		producer, next, err := program.open(t.Context())
		require.NoError(t, err)
		if restarts == 3 {
			// It was away for longer than its session lived.
			require.NoError(t, c.Admin().CloseSession(t.Context(), "orders", client.Session{ID: disk.at.Session, LogID: disk.at.LogID}))
		}
		// It dies after some records, whatever has been acknowledged of them.
		dies := next + 1 + random.IntN(400)
		for ; next < min(dies, inputs); next++ {
			if producer.SendFunc(t.Context(), client.Record{Value: fmt.Append(nil, next)}, func(int64, error) {}) != nil {
				break
			}
		}
		if next == inputs {
			done = producer.Flush(t.Context()) == nil
		}
		if random.IntN(2) == 0 {
			_ = producer.Flush(t.Context()) // else it dies with records on their way
		}
		require.NoError(t, c.Close())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = producer.Close(ctx)
	}
	require.Greater(t, restarts, 5)

	c, err := client.Dial([]string{server.grpc})
	require.NoError(t, err)
	defer c.Close()
	r, err := c.Reader(t.Context(), "orders", client.WithMaxRecords(inputs))
	require.NoError(t, err)
	defer r.Close()
	for i := range inputs {
		record, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(record.Value))
		require.EqualValues(t, i, record.Offset)
	}
	require.EqualValues(t, inputs, r.End())
}
