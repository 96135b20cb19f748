package statemachine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// The following is the state of docs/building-a-database.md.

type balances map[string]int

func (b balances) Apply(r client.Record) (int, error) {
	change, err := strconv.Atoi(string(r.Value))
	if err != nil || b[string(r.Key)]+change < 0 {
		return b[string(r.Key)], nil // refused: a result, and the same one on every replica
	}
	b[string(r.Key)] += change
	return b[string(r.Key)], nil
}

func (b balances) Snapshot() (io.WriterTo, error) {
	text, err := json.Marshal(b)
	return bytes.NewBuffer(text), err
}

func (b balances) Restore(r io.Reader) error {
	clear(b)
	return json.NewDecoder(r).Decode(&b)
}

func (b balances) Digest() []byte {
	text, _ := json.Marshal(b) // its keys are in order
	sum := sha256.Sum256(text)
	return sum[:]
}

func TestTheStateOfTheGuideIsReplicated(t *testing.T) {
	t.Parallel()
	e := newCluster(t)
	d := statemachine.Files(t.TempDir())
	one, two := balances{}, balances{}
	options := []statemachine.Option{statemachine.WithSnapshots(d), statemachine.WithSchedule(2, 0), statemachine.WithKeptSnapshots(1), statemachine.WithTrim(), statemachine.WithDigests(4)}
	r := e.open(one, options...)
	for i, change := range []string{"+100", "-30", "-80", "no number", "+1"} {
		applied, err := r.Propose(t.Context(), client.Record{Key: []byte("alice"), Value: []byte(change)})
		require.NoError(t, err)
		require.Equal(t, []int{100, 70, 70, 70, 71}[i], applied.Result)
	}
	require.Eventually(t, func() bool { return e.info().Start > 0 }, time.Minute, 10*time.Millisecond, "a snapshot lets the log be trimmed")
	other := e.open(two, options...)
	require.NoError(t, other.Query(t.Context(), statemachine.Linearizable, func() { require.Equal(t, balances{"alice": 71}, two) }))
}
