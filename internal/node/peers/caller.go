package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Caller asks other nodes, and this one.
type Caller struct {
	Logger  *slog.Logger
	me      *atomic.Pointer[datadir.Identity]
	mesh    *peer.Mesh
	Answers *Answers
}

// Envelope is how answers travel: a refusal stays one.
type Envelope struct {
	Refusal *record.Refusal `json:"refusal,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// Call asks another node, or this one, and decodes the answer.
func (c *Caller) Call(ctx context.Context, node uint64, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	var reply []byte
	if node == c.me.Load().NodeID {
		reply, err = c.Answers.Answer(ctx, node, kind, body)
	} else {
		reply, err = c.mesh.Call(ctx, node, kind, body)
	}
	switch {
	case errors.Is(err, peer.ErrNotConnected), errors.Is(err, peer.ErrBusy):
		return record.Refuse(record.Busy, "node %d cannot be reached now: %v", node, err)
	case err != nil:
		return record.Refuse(record.OutcomeUnknown, "node %d did not answer: %v", node, err)
	}
	return Unwrap(reply, answer)
}

// AskAddress asks whoever is at an address.
func (c *Caller) AskAddress(ctx context.Context, address, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	reply, err := c.mesh.Ask(ctx, address, kind, body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", address, err)
	}
	return Unwrap(reply, answer)
}

// Unwrap decodes an answer, or returns the refusal that it is.
func Unwrap(reply []byte, answer any) error {
	var e Envelope
	if err := json.Unmarshal(reply, &e); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	if e.Refusal != nil {
		return e.Refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(e.Answer, answer); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	return nil
}
