package statemachine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/embed"
	"strandline.dev/statemachine"
	"strandline.dev/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// counters is a machine: how often there was a record of each key, and a sum that depends on the order of all
// records.
type counters struct {
	Counts map[string]int `json:"counts"`
	Sum    []byte         `json:"sum"`
	Next   int64          `json:"next"` // of the last record, plus one
}

func newCounters() *counters { return &counters{Counts: map[string]int{}} }

func (c *counters) Apply(r client.Record) (int, error) {
	if string(r.Key) == "poison" {
		return 0, errors.New("a record that cannot be applied")
	}
	sum := sha256.New()
	sum.Write(c.Sum)
	sum.Write(r.Key)
	c.Sum = sum.Sum(nil)
	c.Counts[string(r.Key)]++
	c.Next = r.Offset + 1
	return c.Counts[string(r.Key)], nil
}

func (c *counters) Snapshot() (io.WriterTo, error) {
	text, err := json.Marshal(c)
	return bytes.NewBuffer(text), err
}

func (c *counters) Restore(r io.Reader) error {
	fresh := newCounters()
	err := json.NewDecoder(r).Decode(fresh)
	*c = *fresh
	return err
}

// checked is a machine that replicas compare.
type checked struct{ *counters }

func (c checked) Digest() []byte { return c.Sum }

// cluster is a node in this process, with a log.
type cluster struct {
	t     testing.TB
	nodes *embed.Cluster
	c     *client.Client
}

const logName = "counters"

func newCluster(t testing.TB) *cluster {
	t.Helper()
	nodes, err := embed.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nodes.Close()) })
	e := &cluster{t: t, nodes: nodes}
	e.c = e.dial()
	// In memory: what is tested here rests on the log, and not on the disk below it.
	_, err = e.c.Admin().CreateLog(t.Context(), logName, client.LogConfig{Durability: client.Memory})
	require.NoError(t, err)
	return e
}

func (e *cluster) dial() *client.Client {
	e.t.Helper()
	c, err := e.nodes.Client(client.WithRetryTime(time.Minute))
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, c.Close()) })
	return c
}

// open opens a replica that is closed with the test.
func (e *cluster) open(m statemachine.Machine[int], opts ...statemachine.Option) *statemachine.Replica[int] {
	e.t.Helper()
	r, err := statemachine.Open(e.t.Context(), e.c, logName, m, opts...)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { e.close(r) })
	return r
}

func (e *cluster) close(r *statemachine.Replica[int]) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(e.t, r.Close(ctx))
}

func (e *cluster) propose(r *statemachine.Replica[int], key string) statemachine.Applied[int] {
	e.t.Helper()
	applied, err := r.Propose(e.t.Context(), client.Record{Key: []byte(key)})
	require.NoError(e.t, err)
	return applied
}

func (e *cluster) info() client.LogInfo {
	e.t.Helper()
	info, err := e.c.Admin().Info(e.t.Context(), logName)
	require.NoError(e.t, err)
	return info
}
