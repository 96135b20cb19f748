package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/record"
	"strandline.dev/internal/sequence"
)

// checkedOf is an append of one record without a key, on the condition of a check.
func checkedOf(t testing.TB, since record.Offset, keys, prefixes []string, headers ...record.Header) *sequence.Append {
	t.Helper()
	each := func(of []string) (all [][]byte) {
		for _, text := range of {
			all = append(all, []byte(text))
		}
		return all
	}
	check, err := sequence.NewCheck(since, each(keys), each(prefixes), headers)
	require.NoError(t, err)
	a := requestOf(t, record.None, record.Record{Timestamp: 1, Value: []byte("checked")})
	a.Check, a.Atomic = check, true
	return a
}

// filled is a node with a log of many small segments, of batches in all compressions. Keys rise
// with the log, and the record of a key can be found by it.
func filled(t *testing.T) (n *Node, keys map[record.Offset]string) {
	t.Helper()
	n, err := Open(settings.Options{FormAlone: true, DataDir: t.TempDir(), SegmentBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	create(t, n, "orders", settings.Config{})
	random := rand.New(rand.NewPCG(31, 1))
	keys = map[record.Offset]string{}
	for batch := range 40 {
		var records []record.Record
		for i := range 20 {
			key := fmt.Sprintf("%c/%d/%d", 'a'+batch/8, batch, i)
			records = append(records, record.Record{
				Timestamp: 1, Key: []byte(key), Value: []byte(letters(random, 500)), Headers: []record.Header{{Key: "key", Value: []byte(key)}},
			})
			keys[record.Offset(batch*20+i)] = key
		}
		require.Nil(t, appendTo(t, n, "orders", requestOf(t, record.Codec(batch%5), records...)).Refusal)
	}
	return n, keys
}

// Nobody has checked before, so that no keys are kept: the whole log is searched, with key summaries and
// without.
func TestACheckOfTheWholeLogIsDecidedByASearch(t *testing.T) {
	t.Parallel()
	n, keys := filled(t)
	skipped := func() float64 { return gathered(t, n.Metrics())["skipped_segments_total"] }
	require.Eventually(t, func() bool {
		before := skipped()
		selected(t, n, "orders", `key == "nobody"`)
		return skipped()-before >= 5
	}, time.Minute, 10*time.Millisecond, "summaries are made")
	header := func(value string) record.Header { return record.Header{Key: "key", Value: []byte(value)} }
	for o, key := range keys {
		if o%37 != 0 {
			continue
		}
		for _, a := range []*sequence.Append{
			checkedOf(t, 0, []string{"nobody", key}, nil),
			checkedOf(t, o, nil, []string{key}),
			checkedOf(t, 0, []string{"nobody"}, []string{key}),
			checkedOf(t, 0, []string{key}, []string{"nobody"}),
			checkedOf(t, 0, nil, nil, header(key)),
			checkedOf(t, 0, []string{"nobody"}, nil, header(key)),
		} {
			r := appendTo(t, n, "orders", a).Refusal
			require.NotNil(t, r, key)
			require.Equal(t, record.Conflict, r.Reason, "%s: %v", key, r)
			require.Equal(t, o, r.At, r)
			require.Equal(t, key, string(r.Key), r)
		}
		for _, a := range []*sequence.Append{
			checkedOf(t, 0, []string{"nobody"}, nil),
			checkedOf(t, o+1, []string{key}, nil),
			checkedOf(t, o+1, []string{key}, []string{"nobody"}),
			checkedOf(t, o+1, nil, nil, header(key)),
		} {
			require.Nil(t, appendTo(t, n, "orders", a).Refusal, key)
		}
	}
}

// What is in flight when a log begins to keep keys is awaited, and searched with the rest.
func TestTheFirstCheckOfALogSeesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	for i := range 20 {
		log := fmt.Sprint("orders", i)
		create(t, n, log, settings.Config{})
		answers, written := make(chan sequence.Answer, 2), make(chan struct{})
		n.Append(anyone, log, requestOf(t, record.None, record.Record{Timestamp: 1, Key: []byte("a")}),
			func(sequence.Answer) { close(written) }, func(a sequence.Answer) { answers <- a })
		<-written // and not synced yet, as a rule
		n.Append(anyone, log, checkedOf(t, 0, []string{"a"}, nil), nil, func(a sequence.Answer) { answers <- a })
		require.Nil(t, (<-answers).Refusal)
		r := (<-answers).Refusal
		require.NotNil(t, r)
		require.Equal(t, record.Conflict, r.Reason, r)
	}
}

// A search that would read too much ends, and the check is refused with the offset from which on the log
// knows.
func TestACheckThatWouldReadTooMuchIsRefusedWithWhereToReadTo(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	large := requestOf(t, record.None, record.Record{Timestamp: 1, Key: []byte("large"), Value: make([]byte, 1<<20-1<<10)})
	for range 20 {
		require.Nil(t, appendTo(t, n, "orders", large).Refusal)
	}
	r := appendTo(t, n, "orders", checkedOf(t, 0, []string{"a"}, nil)).Refusal
	require.NotNil(t, r)
	require.Equal(t, record.CheckTooOld, r.Reason)
	require.EqualValues(t, 20, r.Start)
	require.Nil(t, appendTo(t, n, "orders", checkedOf(t, r.Start, []string{"a"}, nil)).Refusal)
	require.Nil(t, appendTo(t, n, "orders", checkedOf(t, 18, []string{"a"}, nil)).Refusal, "a part of it is within reach")
	require.Equal(t, record.Conflict, appendTo(t, n, "orders", checkedOf(t, 0, []string{"large"}, nil)).Refusal.Reason, "a match is found before")
}

// The records below the start cannot be searched, and are not guessed at.
func TestACheckBelowTheStartIsRefusedAndOneSinceTheStartIsDecided(t *testing.T) {
	t.Parallel()
	n, keys := filled(t)
	start, end, err := n.Trim(t.Context(), anyone, "orders", 300, false)
	require.NoError(t, err)
	r := appendTo(t, n, "orders", checkedOf(t, start-1, []string{"nobody"}, nil)).Refusal
	require.NotNil(t, r)
	require.Equal(t, record.CheckTooOld, r.Reason)
	require.Equal(t, end, r.Start)
	require.Nil(t, appendTo(t, n, "orders", checkedOf(t, start, []string{keys[start-1]}, nil)).Refusal)
	require.Equal(t, start, appendTo(t, n, "orders", checkedOf(t, start, []string{keys[start]}, nil)).Refusal.At)
}

func TestALogInMemoryTakesCheckedAppends(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{Durability: settings.Memory})
	for i := range 3 {
		require.Nil(t, appendTo(t, n, "orders", requestOf(t, record.None, record.Record{Timestamp: 1, Key: fmt.Append(nil, i)})).Refusal)
	}
	require.EqualValues(t, 1, appendTo(t, n, "orders", checkedOf(t, 0, []string{"1"}, nil)).Refusal.At)
	require.Nil(t, appendTo(t, n, "orders", checkedOf(t, 2, []string{"1"}, nil)).Refusal)
}

// Keys are kept in the part of the memory for them, and not where a log is idle.
func TestRecentKeysCountInTheNodesMemory(t *testing.T) {
	t.Parallel()
	n := open(t, t.TempDir())
	create(t, n, "orders", settings.Config{})
	for i := range 100 {
		a := requestOf(t, record.None, record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "key/%d", i)})
		if i == 50 {
			require.Zero(t, n.memory.Checks.Used(), "nobody has checked")
			a.Check, a.Atomic = checkedOf(t, 0, []string{"nobody"}, nil).Check, true
		}
		require.Nil(t, appendTo(t, n, "orders", a).Refusal)
	}
	require.Eventually(t, func() bool { return n.memory.Checks.Used() > 50*100 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return n.memory.Checks.Used() == 0 }, time.Minute, 50*time.Millisecond, "it is idle")
}
