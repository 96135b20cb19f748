package statemachine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

// faultyDirectory is a store of which a call fails that is drawn: before it has an effect, or after, so that its
// caller does not know. What is stored is whole, as Put promises.
type faultyDirectory struct {
	mu     sync.Mutex
	random *rand.Rand
	rate   float64 // of calls that fail
	stored map[string][]byte
	failed int
}

// broken is the rest of a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errFaulty }

var errFaulty = errors.New("a fault that was drawn")

func (d *faultyDirectory) fault() error {
	if d.random.Float64() < d.rate {
		d.failed++
		return errFaulty
	}
	return nil
}

func (d *faultyDirectory) Put(_ context.Context, name string, content io.WriterTo) error {
	var text bytes.Buffer
	_, err := content.WriteTo(&text)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err = errors.Join(err, d.fault()); err != nil {
		return err
	}
	d.stored[name] = text.Bytes()
	return d.fault()
}

func (d *faultyDirectory) Get(_ context.Context, name string) (io.ReadCloser, int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, found := d.stored[name]
	if !found {
		return nil, 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if d.random.Float64() < d.rate {
		d.failed++
		part := bytes.NewReader(text[:d.random.IntN(len(text))])
		return io.NopCloser(io.MultiReader(part, broken{})), int64(len(text)), nil
	}
	return io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
}

func (d *faultyDirectory) List(context.Context) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.stored {
		names = append(names, name)
	}
	return names, nil
}

func (d *faultyDirectory) Delete(_ context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fault(); err != nil {
		return err
	}
	delete(d.stored, name)
	return d.fault()
}

func (d *faultyDirectory) Location(name string) string { return "memory/" + name }

// heal makes what follows succeed.
func (d *faultyDirectory) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rate = 0
}

// Replicas are killed at steps of their snapshots that are drawn, while the store fails now and then. Whatever is left,
// a new replica boots and has the state of all records; and each proposal that was answered is in it.
func TestReplicasThatAreKilledAtAnyStepOfASnapshotLoseNothing(t *testing.T) {
	t.Parallel()
	killed := map[string]int{}
	var killing sync.Mutex
	t.Cleanup(func() {
		for _, step := range statemachine.Steps {
			require.Positive(t, killed[step], "%s: no seed has killed a replica there: %v", step, killed)
		}
	})
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			e := newCluster(t)
			random := rand.New(rand.NewPCG(31, seed))
			d := &faultyDirectory{random: rand.New(rand.NewPCG(32, seed)), rate: 0.1, stored: map[string][]byte{}}
			model := newCounters()
			observer := e.open(checked{model}, statemachine.WithDigests(16)) // it has every record from its start
			for range 8 {
				at, passes := statemachine.Steps[random.IntN(len(statemachine.Steps))], random.IntN(3)
				e.liveAndDie(d, random, func(step string) error {
					if step == "trim" {
						if err := observer.Query(t.Context(), statemachine.Linearizable, func() {}); err != nil {
							return err
						}
					}
					if step == at {
						if passes--; passes < 0 {
							killing.Lock()
							defer killing.Unlock()
							killed[step]++
							return statemachine.ErrKilled
						}
					}
					return nil
				})
				e.requirePlaceToBootFrom(d)
			}
			d.heal()
			state := newCounters()
			e.open(checked{state}, statemachine.WithSnapshots(d), statemachine.WithSchedule(0, 0))
			require.NoError(t, observer.Query(t.Context(), statemachine.Linearizable, func() { require.Equal(t, model, state) }))
			require.Greater(t, e.info().Start, int64(10), "the log was trimmed")
			require.Positive(t, d.failed)
		})
	}
}

// liveAndDie opens two replicas that share a directory, and proposes until one of them is killed.
func (e *cluster) liveAndDie(d *faultyDirectory, random *rand.Rand, step func(string) error) {
	options := []statemachine.Option{
		statemachine.WithSnapshots(d), statemachine.WithSchedule(4, 0), statemachine.WithTrim(), statemachine.WithKeptSnapshots(1 + random.IntN(2)),
		statemachine.WithDigests(16),
	}
	var steps sync.Mutex
	var replicas []*statemachine.Replica[int]
	for range 2 {
		// The machine of a replica that was killed is gone.
		r, err := statemachine.Open(e.t.Context(), e.c, logName, checked{newCounters()}, append(slices.Clone(options), statemachine.WithSteps(func(at string) error {
			steps.Lock()
			defer steps.Unlock()
			return step(at)
		}))...)
		if err != nil {
			require.ErrorIs(e.t, err, errFaulty, "the store failed, and nothing else")
			continue
		}
		replicas = append(replicas, r)
	}
	for n := 0; n < 60; n++ {
		for _, r := range replicas {
			if _, err := r.Propose(e.t.Context(), client.Record{Key: fmt.Appendf(nil, "key%d", random.IntN(5))}); err != nil {
				if errors.Is(err, statemachine.ErrResultLost) {
					continue // the other replica has trimmed the record, and this one continued from a snapshot
				}
				require.ErrorIs(e.t, err, statemachine.ErrKilled)
				n = 60
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, r := range replicas {
		if err := r.Err(); err != nil {
			require.ErrorIs(e.t, err, statemachine.ErrKilled)
		}
		_ = r.Close(ctx)
	}
}

// requirePlaceToBootFrom requires that a snapshot reaches what is left of the log.
func (e *cluster) requirePlaceToBootFrom(d *faultyDirectory) {
	info, found := e.info(), 0
	for _, name := range names(e.t, d) {
		var log uint64
		var offset int64
		_, err := fmt.Sscanf(name, "%x-%d", &log, &offset)
		require.NoError(e.t, err)
		if offset >= info.Start {
			found++
		}
	}
	require.True(e.t, info.Start == 0 || found > 0, "the log begins at %d, and no snapshot is there: %v", info.Start, names(e.t, d))
	require.NotEmpty(e.t, info.Holds)
}
