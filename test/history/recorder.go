package history

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Recorder writes a history while it happens. Its methods may be called from
// any goroutine; the order of the lines is that of the calls. Each line is
// handed to the writer with one Write: a process that may be killed gives a
// file, any other a bufio.Writer.
type Recorder struct {
	mu    sync.Mutex
	out   io.Writer
	clock func() int64
	calls uint64
	err   error
}

// NewRecorder writes to out. Times are those of this machine, so that the
// histories of several processes on it can be checked together.
func NewRecorder(out io.Writer) *Recorder {
	begun := time.Now()
	return NewRecorderAt(out, func() int64 { return begun.UnixNano() + int64(time.Since(begun)) })
}

// NewRecorderAt writes to out with times, in ns, from a clock of the caller's,
// which must not go back.
func NewRecorderAt(out io.Writer, clock func() int64) *Recorder {
	return &Recorder{out: out, clock: clock}
}

// Invoke records that a call begins. It has to be called before anything of the
// call can reach a server.
func (r *Recorder) Invoke(e Event) *Call {
	e.Kind = Invoke
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	e.Call = r.calls
	r.write(&e)
	return &Call{r, e.Client, e.Call}
}

// Note records a line that belongs to no call: of a client, a crash, a log, a
// replica.
func (r *Recorder) Note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(&e)
}

// Now is the time on the recorder's clock, from which deadlines are reckoned.
func (r *Recorder) Now() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock()
}

// Err is the first reason why a line could not be written. None follows it: a
// history with a hole would accuse the innocent.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) write(e *Event) {
	if r.err != nil {
		return
	}
	e.Time = r.clock()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("write history: %w", err)
	}
}

// Call is a call that has begun.
type Call struct {
	recorder *Recorder
	client   string
	number   uint64
}

// Frame records what a read got. It has to be called after it was got.
func (c *Call) Frame(e Event) { c.note(e, Frame) }

// Return records how the call ended, after it did. A call that never returns
// may still have happened.
func (c *Call) Return(e Event) { c.note(e, Return) }

func (c *Call) note(e Event, kind Kind) {
	e.Kind, e.Client, e.Call = kind, c.client, c.number
	c.recorder.Note(e)
}
