package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// answers are those that this node has to the questions of others.
type answers struct {
	self    *self
	catalog *atomic.Pointer[catalog]
	// By kind of question. toMembers are given by a member to another one.
	toAnybody, toMembers map[string]answer
}

// What nodes ask each other. Requests and answers are JSON.
const (
	askWho           = "who"            // may be asked by anybody: is this node a member, and of what?
	askForm          = "form"           // by a node that waits, to the one that forms the cluster: do so
	askJoin          = "join"           // by a node that is in no cluster: take me in
	askInvite        = "invite"         // to a node that waits: ask these addresses to be taken in
	askCatalogAppend = "append-catalog" // to the catalog's leader
	askTransfer      = "transfer"       // to a log's leader: let that replica lead
	askStatus        = "status"         // what do you know of yourself and of the logs you lead?
	askLeads         = "leads"          // which logs do you lead and follow?
	askReady         = "ready"          // to a node with a replica: answer when the log takes appends
	askKept          = "kept"           // what is left of these replicas?
	askEntries       = "entries"        // what do you have stored of a log?
	askRenewCatalog  = "renew-catalog"  // by a node that has lost its replica of the catalog: give me another
)

// transferRequest asks the leader of a log to let a node lead.
type transferRequest struct {
	Log  string `json:"log"`
	Node uint64 `json:"node"`
}

// answer answers another node. What is refused travels as a refusal; other
// errors as text.
func (a *answers) answer(ctx context.Context, from peer.NodeID, kind string, request []byte) ([]byte, error) {
	result, err := a.decide(ctx, from, kind, request)
	var e envelope
	if err != nil && !errors.As(err, &e.Refusal) {
		return nil, err
	}
	if e.Refusal == nil && result != nil {
		if e.Answer, err = json.Marshal(result); err != nil {
			return nil, err
		}
	}
	return json.Marshal(e)
}

func (a *answers) decide(ctx context.Context, from peer.NodeID, kind string, request []byte) (any, error) {
	if answer := a.toAnybody[kind]; answer != nil {
		return answer(ctx, from, request)
	}
	if from == 0 || a.catalog.Load() == nil {
		return nil, a.self.notMember()
	}
	if answer := a.toMembers[kind]; answer != nil {
		return answer(ctx, from, request)
	}
	return nil, record.Refuse(record.Unsupported, "this node does not know the question %q; it runs version %s", kind, a.self.options.Version)
}

// answer is how a node answers one kind of question; from is 0 for a node that is
// no member.
type answer func(ctx context.Context, from peer.NodeID, request []byte) (any, error)

// answerTo decodes the request of an answer.
func answerTo[Q any](answer func(context.Context, Q) (any, error)) answer {
	return func(ctx context.Context, _ peer.NodeID, request []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, fmt.Errorf("decode request: %w", err)
		}
		return answer(ctx, q)
	}
}
