package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/datadir"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Caller makes calls to other nodes, and to this one.
type Caller struct {
	Logger  *slog.Logger
	me      *datadir.Me
	mesh    *peer.Mesh
	answers *Answers
}

// NewCaller returns a Caller that calls other nodes over mesh, and this node directly.
func NewCaller(logger *slog.Logger, me *datadir.Me, mesh *peer.Mesh, answers *Answers) *Caller {
	return &Caller{Logger: logger, me: me, mesh: mesh, answers: answers}
}

// Envelope is the encoding of answers, which preserves refusals. Bytes follow it, since JSON would
// make them a third longer.
type Envelope struct {
	Refusal *record.Refusal `json:"refusal,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// Attaching is an answer with bytes that follow the JSON.
type Attaching interface{ Attached() [][]byte }

// Attachable is the type into which an Attaching answer is decoded. Attach takes ownership of the
// bytes. It is called after the JSON was decoded, and checks the number of bytes.
type Attachable interface{ Attach(attached []byte) error }

// Call makes a call to another node, or to this one, and decodes the answer.
func (c *Caller) Call(ctx context.Context, node uint64, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	var reply []byte
	if node == c.me.Load().NodeID {
		reply, err = c.answers.Answer(ctx, node, kind, body)
	} else {
		reply, err = c.mesh.Call(ctx, node, kind, body)
	}
	if err != nil {
		return refusalOf(node, err)
	}
	return Unwrap(reply, answer)
}

// AppendCatalog asks a node that leads the catalog to append changes.
func (c *Caller) AppendCatalog(ctx context.Context, node uint64, q catalog.CatalogAppend) error {
	return c.Call(ctx, node, AskCatalogAppend, q, nil)
}

// refusalOf is the refusal of a call that another node has not answered.
func refusalOf(node uint64, err error) *record.Refusal {
	switch {
	case errors.Is(err, peer.ErrNotConnected):
		return record.Refuse(record.Busy, "node %d is unreachable now: %v", node, err)
	case errors.Is(err, peer.ErrBusy):
		return record.Refuse(record.Busy, "node %d accepts no more calls now: %v", node, err)
	}
	return record.Refuse(record.OutcomeUnknown, "node %d did not answer: %v", node, err)
}

// AskAddress makes a call to the node at an address.
func (c *Caller) AskAddress(ctx context.Context, address, kind string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	reply, err := c.mesh.Ask(ctx, address, kind, body)
	if err != nil {
		return fmt.Errorf("call %s: %w", address, err)
	}
	return Unwrap(reply, answer)
}

// Unwrap decodes an answer. If the answer is a refusal, it returns that.
func Unwrap(reply []byte, answer any) error {
	var e Envelope
	decoder := json.NewDecoder(bytes.NewReader(reply))
	if err := decoder.Decode(&e); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	attached := reply[decoder.InputOffset():]
	if e.Refusal != nil {
		return e.Refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(e.Answer, answer); err != nil {
		return fmt.Errorf("decode an answer of another node: %w", err)
	}
	if to, ok := answer.(Attachable); ok {
		return to.Attach(attached)
	}
	if len(attached) > 0 {
		return fmt.Errorf("decode an answer of another node: %d extra bytes", len(attached))
	}
	return nil
}
