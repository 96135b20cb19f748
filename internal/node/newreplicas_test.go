package node

import (
	"bytes"
	"log/slog"
	"net"
	goruntime "runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/node/hosted"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/replica/core"
	"strandline.dev/internal/replica/runtime"
	"strandline.dev/internal/segment/memory"
)

// voteOf is a message by which a replica asks another one for its vote.
func voteOf(t *testing.T, founders []uint64, from, to uint64) []byte {
	b, err := core.Bootstrap(founders)
	require.NoError(t, err)
	log := memory.New(b)
	asked := make(chan []byte, 1)
	r, err := runtime.Start(runtime.Options{
		Memory: budget.New(budget.Least),
		ID:     from, Log: log, HardState: b.HardState, FirstLeader: true, Logger: slog.New(slog.DiscardHandler),
		Send: func(other uint64, _ bool, message net.Buffers) bool {
			if other == to {
				select {
				case asked <- bytes.Join(message, nil):
				default:
				}
			}
			return true
		},
	})
	require.NoError(t, err)
	defer func() {
		r.Close(t.Context())
		require.NoError(t, log.Close())
	}()
	for {
		select {
		case message := <-asked:
			return message
		default:
			r.Tick()
			goruntime.Gosched()
		}
	}
}

// A node that is mistaken about itself, or lies, cannot vote or acknowledge for
// another one.
func TestANodeCannotSpeakForTheReplicaOfAnother(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	_, err := c.nodes["a"].CreateLog(t.Context(), anyone, "orders", settings.Config{Replicas: 3})
	require.NoError(t, err)
	a := c.nodes["a"]
	l := a.catalog.Load().Shown.Load().Logs["orders"]
	on := func(name string) (node, replica uint64) {
		node = c.nodes[name].me.Load().NodeID
		r, here := l.On(node)
		require.True(t, here)
		return node, r.ID
	}
	_, here := on("a")
	b, ofB := on("b")
	other, _ := on("c")
	message := voteOf(t, l.Founders, ofB, here)
	dropped := func() float64 { return testutil.ToFloat64(a.metrics.Forged) }

	before := dropped()
	a.others.Router.Deliver(b, l.ID, here, message)
	require.Equal(t, before, dropped(), "it is b's")
	a.others.Router.Deliver(other, l.ID, here, message)
	require.Equal(t, before+1, dropped(), "c asks for a vote for b's replica")
}

func TestANewerReplicaIsOfTheNodeThatItWasHeardOfFirst(t *testing.T) {
	var r hosted.NewReplicas
	require.True(t, r.Learn(10, 4, 5))
	require.False(t, r.Learn(10, 3, 5), "another node claims it")
	require.True(t, r.Learn(10, 4, 5))
	require.Equal(t, uint64(4), r.Node(10))
	for id := uint64(11); id < 10+hosted.MaxNewReplicas; id++ {
		require.True(t, r.Learn(id, 3, 5))
	}
	require.False(t, r.Learn(500, 3, 5), "the memory for them is bounded")
	require.True(t, r.Learn(501, 3, 500), "the catalog has the others by now")
}
