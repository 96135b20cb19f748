package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
	"strandline.dev/test/disk/faultdisk"
)

// client appends through a session as a careful producer does, and keeps the
// answers. After a lost answer it sends the same record again.
type client struct {
	log      string
	session  record.SessionID
	sequence record.Sequence
	prefix   string
	acked    map[record.Offset]string
	// open is the record whose answer was lost, if any.
	open string
}

func openOn(disk *faultdisk.Disk) (*Node, error) {
	return Open(settings.Options{FormAlone: true, DataDir: "data", SegmentBytes: 64 << 10, MinFree: -1, Disk: disk, Logger: slog.New(slog.DiscardHandler)})
}

// append sends the client's next record, or again the one it knows nothing of.
func (c *client) append(t *testing.T, n *Node) error {
	if c.open == "" {
		c.open = fmt.Sprintf("%s-%d", c.prefix, c.sequence)
	}
	a := request(t, c.open)
	a.Session, a.First, a.LowWater = c.session, c.sequence, c.sequence
	answers := make(chan sequence.Answer, 1)
	n.Append(anyone, c.log, a, nil, func(a sequence.Answer) { answers <- a })
	answer := <-answers
	if answer.Refusal != nil {
		return answer.Refusal
	}
	c.acked[answer.First.First] = c.open
	c.sequence++
	c.open = ""
	return nil
}

// short is a run that creates a log and has two clients append to it at once,
// with a trim in between. It ends at the first error, as a crashed process.
func (h *history) short(t *testing.T, n *Node, appends int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := n.CreateLog(ctx, anyone, "orders", settings.Config{}); err != nil && !errors.Is(err, &record.Refusal{Reason: record.LogExists}) {
		return
	}
	for _, c := range h.clients {
		if c.session == 0 {
			s, err := n.OpenSession(ctx, anyone, "orders", time.Hour)
			if err != nil {
				return
			}
			c.session = s.ID
		}
	}
	var running sync.WaitGroup
	for _, c := range h.clients {
		running.Go(func() {
			for range appends {
				if c.append(t, n) != nil {
					return
				}
			}
		})
	}
	running.Wait()
}

// history is what all clients of a run know.
type history struct {
	clients []*client
	trimmed record.Offset // the highest point that was asked for
}

func newHistory() *history {
	h := &history{}
	for i := range 2 {
		h.clients = append(h.clients, &client{log: "orders", prefix: string(rune('a' + i)), acked: map[record.Offset]string{}})
	}
	return h
}

// check proves that every acknowledged record is there, once, at its offset,
// and that what is there besides was sent.
func (h *history) check(t *testing.T, n *Node) {
	info, err := n.KnownInfo(anyone, "orders")
	if err != nil {
		for _, c := range h.clients {
			require.Empty(t, c.acked, "the log is gone, but it took appends")
		}
		return
	}
	require.LessOrEqual(t, info.Start, h.trimmed)
	stored := map[string]record.Offset{}
	offsets := map[record.Offset]string{}
	for _, text := range read(t, n, "orders", everything) {
		var o record.Offset
		var value string
		_, err := fmt.Sscanf(text, "%d:%s", &o, &value)
		require.NoError(t, err)
		require.NotContains(t, stored, value, "a record is there twice")
		stored[value], offsets[o] = o, value
	}
	count := 0
	for _, c := range h.clients {
		for o, value := range c.acked {
			if o < info.Start {
				continue
			}
			require.Equal(t, value, offsets[o], "the acknowledged record at offset %d", o)
			count++
		}
		if _, there := stored[c.open]; there && c.open != "" {
			count++ // it landed, and the answer was lost
		}
	}
	require.Len(t, stored, count, "nothing is there that nobody sent")
}

func TestAPowerCutAtEveryWriteLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	n, err := openOn(disk)
	require.NoError(t, err)
	newHistory().short(t, n, 6)
	operations := disk.Operations()
	require.NoError(t, n.Close(t.Context()))
	require.Greater(t, operations, 30)

	for _, remains := range []faultdisk.Remains{faultdisk.Nothing, faultdisk.Everything, faultdisk.Some} {
		t.Run(remains.String(), func(t *testing.T) {
			for stop := 1; stop <= operations; stop++ {
				crashAt(t, uint64(stop), stop, remains)
			}
		})
	}
}

func crashAt(t *testing.T, seed uint64, stop int, remains faultdisk.Remains) {
	disk := faultdisk.New(seed)
	disk.StopAt(stop)
	h := newHistory()
	if n, err := openOn(disk); err == nil {
		h.short(t, n, 6)
		_ = n.Close(canceled())
	}
	disk.PowerCut(remains)
	n, err := openOn(disk)
	require.NoError(t, err, "stopped at operation %d", stop)
	h.check(t, n)
	h.short(t, n, 2) // clients continue where they were
	h.check(t, n)
	require.NoError(t, n.Close(t.Context()))
}

func TestPowerCutsAtRandomOverALongRunLoseNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	disk := faultdisk.New(seed)
	h := newHistory()
	for range 60 {
		disk.StopAt(1 + random.IntN(120))
		if n, err := openOn(disk); err == nil {
			h.short(t, n, 200)
			_ = n.Close(canceled())
		}
		if !disk.Stopped() {
			t.Log("the run ended before the cut")
		}
		disk.PowerCut(faultdisk.Remains(random.IntN(3)))
		n, err := openOn(disk)
		require.NoError(t, err, "seed %d", seed)
		h.check(t, n)
		require.NoError(t, n.Close(t.Context()))
	}
	acked := 0
	for _, c := range h.clients {
		acked += len(c.acked)
	}
	t.Logf("%d appends acknowledged", acked)
	require.Greater(t, acked, 100)
}

func TestAFailedWriteOrSyncEndsTheLogAndARestartGoesOn(t *testing.T) {
	t.Parallel()
	for _, op := range []faultdisk.Op{faultdisk.Write, faultdisk.Datasync} {
		for nth := 1; nth <= 12; nth++ {
			disk := faultdisk.New(1)
			n, err := openOn(disk)
			require.NoError(t, err)
			create(t, n, "orders", settings.Config{})
			h := newHistory()
			h.short(t, n, 1)
			// A fault may meet the filling of a spare, which harms nobody; the
			// next one is armed then.
			for attempt := range 100 {
				disk.FailNthBelow("data/logs/1", op, max(1, nth-attempt), syscall.EIO)
				h.short(t, n, 50)
				info, err := n.KnownInfo(anyone, "orders")
				require.NoError(t, err)
				if info.Problem != "" {
					break
				}
				require.Less(t, attempt, 99, "%s failed again and again, and the log went on", op)
			}
			before := len(h.clients[0].acked) + len(h.clients[1].acked)
			h.short(t, n, 1)
			require.Equal(t, before, len(h.clients[0].acked)+len(h.clients[1].acked), "no append is acknowledged after it")
			require.ErrorContains(t, n.Ready(), "orders")
			_ = n.Close(canceled())

			disk.PowerCut(faultdisk.Nothing)
			n, err = openOn(disk)
			require.NoError(t, err)
			h.check(t, n)
			h.short(t, n, 1)
			h.check(t, n)
			require.NoError(t, n.Close(t.Context()))
		}
	}
}

func TestAFullDiskRefusesAppendsAndTrimmingBringsThemBack(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	disk.Capacity(8 << 20)
	n, err := Open(settings.Options{FormAlone: true, DataDir: "data", SegmentBytes: 256 << 10, MinFree: 4 << 20, Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	create(t, n, "orders", settings.Config{})
	payload := string(make([]byte, 64<<10))
	var refusal *record.Refusal
	for refusal == nil {
		refusal = appendTo(t, n, "orders", request(t, payload)).Refusal
	}
	require.Equal(t, record.Full, refusal.Reason)
	require.Positive(t, len(read(t, n, "orders", everything)), "reads work")

	_, end, err := n.Trim(t.Context(), anyone, "orders", 0, false)
	require.NoError(t, err)
	_, _, err = n.Trim(t.Context(), anyone, "orders", end-1, false)
	require.NoError(t, err, "trims work")
	require.Eventually(t, func() bool {
		return appendTo(t, n, "orders", request(t, "room again")).Refusal == nil
	}, time.Minute, 10*time.Millisecond)
}

func TestAFlippedBitIsNamedAndNeverServed(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(1)
	n, err := openOn(disk)
	require.NoError(t, err)
	create(t, n, "orders", settings.Config{})
	payload := string(make([]byte, 8<<10))
	for range 40 {
		mustAppend(t, n, "orders", payload)
	}
	require.NoError(t, n.Close(t.Context()))

	var first string
	for _, name := range disk.Names() {
		if first == "" && len(name) > 4 && name[:11] == "data/logs/1" && name[len(name)-4:] == ".seg" {
			first = name
		}
	}
	disk.FlipBit(first, 20<<10)
	n, err = openOn(disk)
	require.NoError(t, err, "an old segment is not read to open a log")
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	r, err := n.Read(t.Context(), anyone, "orders", everything)
	require.NoError(t, err)
	defer r.Close()
	for {
		c, err := r.Next(t.Context())
		if err != nil {
			require.NotErrorIs(t, err, io.EOF, "the damaged record was passed over")
			requireReason(t, record.Corrupt, err)
			require.ErrorContains(t, err, first)
			return
		}
		require.Less(t, c.First+record.Offset(c.Count), record.Offset(5))
	}
}

// canceled is a context that waits for nothing: a crash does not either.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
