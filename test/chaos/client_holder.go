package chaos

import (
	"context"
	"errors"
	"time"

	"strandline.dev/client"
	"strandline.dev/test/history"
)

// holdLeases are those that a hold may have; 0: none.
var holdLeases = []time.Duration{0, 2 * time.Second, 5 * time.Second}

// hold sets a hold, moves it and renews its lease, and releases it in the end.
func hold(v *life) {
	v.with(func(c *client.Client) {
		h := &holder{life: v, admin: c.Admin(), log: logs[v.dice.IntN(len(logs))]}
		h.info = client.HoldInfo{Name: v.name, Lease: holdLeases[v.dice.IntN(len(holdLeases))], Pointer: []byte("here")}
		h.info.Offset = []int64{client.HoldFromStart, client.HoldFromEnd, v.somewhere(h.log)}[v.dice.IntN(3)]
		if h.set("set") {
			h.live()
			h.release()
		}
	})
}

type holder struct {
	*life
	admin *client.Admin
	log   string
	info  client.HoldInfo
}

func (h *holder) live() {
	for h.ctx.Err() == nil {
		// For most of a lease at times, or for too long.
		wait(h.ctx, time.Duration(h.dice.IntN([]int{50, 300, 3000}[h.dice.IntN(3)]))*time.Millisecond)
		if h.dice.IntN(2) == 0 {
			if !h.keep() {
				return
			}
			continue
		}
		h.info.Offset = max(h.info.Offset, min(h.info.Offset+int64(h.dice.IntN(kept(h.log)/20)), h.load.ends[h.log].Load()))
		if !h.set("moved") {
			return
		}
	}
}

// set sets the hold, or moves it, and reports whether it may be there, where it was to go.
func (h *holder) set(what string) bool {
	event := history.Event{Client: h.name, Verb: history.SetHold, Log: h.log, Hold: h.info.Name, Lease: uint32(h.info.Lease.Milliseconds())}
	if h.info.Offset >= 0 {
		event.From = new(h.info.Offset)
	}
	call := h.load.recorder.Invoke(event)
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	offset, _, err := h.admin.SetHold(ctx, h.log, h.info)
	h.returned(call, err, history.Event{First: &offset})
	if err == nil {
		h.info.Offset = offset
		h.load.did.count("holds " + what)
	}
	return err == nil || h.info.Offset >= 0 && !errors.Is(err, client.ErrOffsetTrimmed)
}

func (h *holder) keep() bool {
	call := h.load.recorder.Invoke(history.Event{Client: h.name, Verb: history.KeepHold, Log: h.log, Hold: h.info.Name})
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	err := h.admin.KeepHold(ctx, h.log, h.info.Name)
	h.returned(call, err, history.Event{})
	if err == nil {
		h.load.did.count("holds kept")
	}
	return !errors.Is(err, client.ErrHoldNotFound)
}

// release ends the hold. One without a lease would keep the log for good, so it asks as
// long as it takes.
func (h *holder) release() {
	for deadline := time.Now().Add(changeTime); ; wait(h.load.ctx, 100*time.Millisecond) {
		call := h.load.recorder.Invoke(history.Event{Client: h.name, Verb: history.ReleaseHold, Log: h.log, Hold: h.info.Name})
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		err := h.admin.ReleaseHold(ctx, h.log, h.info.Name)
		cancel()
		h.returned(call, err, history.Event{})
		if err == nil || errors.Is(err, client.ErrHoldNotFound) {
			h.load.did.count("holds released")
			return
		}
		if h.info.Lease > 0 || time.Now().After(deadline) {
			return
		}
	}
}
