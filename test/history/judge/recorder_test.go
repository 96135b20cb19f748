package judge

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/test/history"
)

func TestClientsBesideEachOtherWriteAHistoryThatCanBeChecked(t *testing.T) {
	var out bytes.Buffer
	r := history.NewRecorder(&out)
	var log struct {
		sync.Mutex
		end int64
	}
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for i := range 50 {
				value := fmt.Appendf(nil, "%d of %d", i, client)
				c := r.Invoke(history.Event{Client: fmt.Sprint(client), Verb: history.Append, Log: "orders", Hashes: history.Hashes{history.Hash(nil, value)}})
				log.Lock()
				offset := log.end
				log.end++
				log.Unlock()
				c.Return(ok(offset))
			}
		})
	}
	clients.Wait()
	require.NoError(t, r.Err())
	report, err := Check(history.NewReader(history.Input{Name: "history", Reader: &out}), Options{})
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Equal(t, 400, report.Acked)
	require.Equal(t, 800, report.Lines)
}

func TestNothingFollowsALineThatCouldNotBeWritten(t *testing.T) {
	out := &full{room: 1}
	r := history.NewRecorder(out)
	r.Note(history.Event{Kind: history.Crash, Client: "a"})
	r.Note(history.Event{Kind: history.Crash, Client: "b"})
	out.room = 1
	r.Note(history.Event{Kind: history.Crash, Client: "c"})
	require.ErrorContains(t, r.Err(), "write history: full")
	require.Equal(t, 1, out.lines)
}

type full struct{ room, lines int }

func (f *full) Write(b []byte) (int, error) {
	if f.room == 0 {
		return 0, errors.New("full")
	}
	f.room--
	f.lines++
	return len(b), nil
}

func TestAHashOfAKeyIsNotThatOfAValue(t *testing.T) {
	require.NotEqual(t, history.Hash([]byte("ab"), []byte("c")), history.Hash([]byte("a"), []byte("bc")))
	require.Equal(t, uint64(0xe6047a3a24901c27), history.Hash(nil, []byte("x")), "other languages rely on it")
}
