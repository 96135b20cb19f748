package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"strandline.dev/client"
)

// silentTime is how long a command may be without its log before it says so:
// longer than most changes of leader.
const silentTime = time.Second

// ErrNoAnswer is why a command waits as long as it knows no other reason.
var ErrNoAnswer = errors.New("no answer yet")

// waitNotice says on the error stream that a command waits for its log or its
// cluster, and when it continues: one line each.
type waitNotice struct {
	cli *Terminal

	mu    sync.Mutex
	log   string      // empty: it waits for the cluster
	why   error       // the newest reason; nil: all is well
	timer *time.Timer // until the notice
	shown bool
	ended bool
}

// NewWaitNotice makes one for a command that begins now. End it with Stop.
func (c *Terminal) NewWaitNotice() *waitNotice { return &waitNotice{cli: c} }

// Trouble is for client.WithTroubleHandler.
func (w *waitNotice) Trouble(log string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log, w.why = log, err
	switch {
	case w.ended:
	case err != nil && w.timer == nil:
		w.timer = time.AfterFunc(silentTime, w.show)
	case err == nil && w.timer != nil:
		w.timer.Stop()
		w.timer = nil
		if w.shown {
			w.shown = false
			w.print(false, w.whom()+" answers again")
		}
	}
}

func (w *waitNotice) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.why == nil || w.shown {
		return
	}
	w.shown = true
	reason := w.why.Error()
	if e := new(client.Error); errors.As(w.why, &e) {
		reason = e.Message
	}
	w.print(true, fmt.Sprintf("waiting for %s, and trying on (Ctrl-C stops): %s", w.whom(), reason))
}

// whom the command waits for.
func (w *waitNotice) whom() string {
	if w.log == "" {
		return "the cluster"
	}
	return "log " + w.log
}

func (w *waitNotice) print(waiting bool, message string) { w.cli.notice(waiting, w.log, message) }

// notice writes one line about waiting to the error stream. log is empty if it is not about one log.
func (c *Terminal) notice(waiting bool, log, message string) {
	if c.JSON {
		notice := map[string]any{"waiting": waiting, "message": message}
		if log != "" {
			notice["log"] = log
		}
		_ = json.NewEncoder(c.Err).Encode(map[string]any{"notice": notice})
		return
	}
	fmt.Fprintf(c.Err, "strandline: %s\n", message)
}

// Stop ends the notices.
func (w *waitNotice) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// workPause is the least time between two lines of a WorkNotice.
const workPause = 5 * time.Second

// WorkNotice says on the error stream what a command waits for that the cluster still has to do: when it has waited for
// a second, and later when that has changed.
type WorkNotice struct {
	cli  *Terminal
	next time.Time
	said string
}

// NewWorkNotice returns one for a command that begins to wait now.
func (c *Terminal) NewWorkNotice() *WorkNotice {
	return &WorkNotice{cli: c, next: time.Now().Add(silentTime)}
}

// Waits says what is still to be done, unless that was said last or something was said a moment ago.
func (w *WorkNotice) Waits(message string) {
	now := time.Now()
	if message == w.said || now.Before(w.next) {
		return
	}
	w.said, w.next = message, now.Add(workPause)
	w.cli.notice(true, "", message)
}
