package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/record"
	"strandline.dev/internal/transport/peer"
)

// Answers holds the functions that answer the calls of other nodes.
type Answers struct {
	self    *Self
	catalog *catalog.Shared
	// By kind of question.
	toAnybody, toMembers map[string]Answer
}

// NewAnswers returns an empty Answers. Functions are registered with ToAnybody and ToMembers before
// the node accepts connections.
func NewAnswers(self *Self, catalog *catalog.Shared) *Answers {
	return &Answers{self: self, catalog: catalog, toAnybody: map[string]Answer{}, toMembers: map[string]Answer{}}
}

// ToAnybody registers the answer to a kind of call that any node may make.
func (a *Answers) ToAnybody(kind string, answer Answer) { a.toAnybody[kind] = answer }

// ToMembers registers the answer to a kind of call that only members may make, to a member.
func (a *Answers) ToMembers(kind string, answer Answer) { a.toMembers[kind] = answer }

// The kinds of calls between nodes. Requests and answers are JSON, and bytes may follow an answer.
const (
	AskWho           = "who"            // for any caller: is this node a member, and of which cluster?
	AskForm          = "form"           // from a waiting node to the one that forms the cluster: form it
	AskJoin          = "join"           // from a node without a cluster: admit me
	AskInvite        = "invite"         // to a waiting node: ask these addresses for admission
	AskCatalogAppend = "append-catalog" // to the catalog's leader
	AskTransfer      = "transfer"       // to a log's leader: let that replica lead
	AskStatus        = "status"         // the state of this node and of the logs that it leads
	AskLeads         = "leads"          // the logs that this node leads and follows
	AskReady         = "ready"          // to a node with a replica: answer when the log accepts appends
	AskLed           = "led"            // to a node with a replica of a new log: answer when it has a leader
	AskConfigured    = "configured"     // to a node with a replica: answer when you know this configuration of the log, or its removal
	AskKept          = "kept"           // the data that these replicas still have
	AskEntries       = "entries"        // stored entries of a log
	AskRenewCatalog  = "renew-catalog"  // from a node that has lost its replica of the catalog: assign another
)

// TransferRequest asks the leader of a log to let a node lead.
type TransferRequest struct {
	Log  string `json:"log"`
	Node uint64 `json:"node"`
}

// ConfiguredRequest asks a node to wait until it knows a configuration of a log, or a later one, or
// that the log was deleted.
type ConfiguredRequest struct {
	Log      string `json:"log"`
	ID       uint64 `json:"id"`
	Revision uint64 `json:"revision"`
}

// Answer answers the call of another node. It returns refusals as such, and other errors as text.
func (a *Answers) Answer(ctx context.Context, from peer.NodeID, kind string, request []byte) ([]byte, error) {
	result, err := a.decide(ctx, from, kind, request)
	var e Envelope
	if err != nil && !errors.As(err, &e.Refusal) {
		return nil, err
	}
	if e.Refusal == nil && result != nil {
		if e.Answer, err = json.Marshal(result); err != nil {
			return nil, err
		}
	}
	reply, err := json.Marshal(e)
	if with, ok := result.(Attaching); ok && err == nil && e.Refusal == nil {
		reply = slices.Concat(append([][]byte{reply}, with.Attached()...)...)
	}
	return reply, err
}

func (a *Answers) decide(ctx context.Context, from peer.NodeID, kind string, request []byte) (any, error) {
	if answer := a.toAnybody[kind]; answer != nil {
		return answer(ctx, from, request)
	}
	if from == 0 || a.catalog.Load() == nil {
		return nil, a.self.NotMember()
	}
	if answer := a.toMembers[kind]; answer != nil {
		if refusal := a.refuseFormer(ctx, from); refusal != nil {
			return nil, refusal
		}
		return answer(ctx, from, request)
	}
	return nil, record.Refuse(record.Unsupported, "this node does not support the request %q; it runs version %s", kind, a.self.options.Version)
}

// refuseFormer refuses the question of a node that is no member. Its connection was
// admitted when it was one, or when this node did not know better.
func (a *Answers) refuseFormer(ctx context.Context, from peer.NodeID) *record.Refusal {
	c := a.catalog.Load()
	if _, member := c.Shown.Load().Nodes[from]; member || from == a.self.me.Load().NodeID {
		return nil
	}
	_ = c.Learn(ctx) // a new member; if this fails, the state below is used
	state := c.Shown.Load()
	if _, member := state.Nodes[from]; member {
		return nil
	}
	if from >= state.NextNode {
		return record.Refuse(record.Busy, "node %d is not known here yet: try again", from)
	}
	return record.Refuse(record.NotMember, "node %d was removed from the cluster", from)
}

// RefuseNonMember refuses to send contents of logs to a node that has proved a name that no member
// has, or that was removed. If this node does not know the members, it answers every node, because
// all nodes may be repairing each other.
func (a *Answers) RefuseNonMember(ctx context.Context, from peer.NodeID) *record.Refusal {
	c := a.catalog.Load()
	if c == nil || len(c.Shown.Load().Nodes) == 0 {
		return nil
	}
	proved := peer.ProvedName(ctx)
	if proved == "" {
		if name, gone := c.Shown.Load().Gone[from]; gone && from != a.self.me.Load().NodeID {
			return record.Refuse(record.NotMember, "node %q was removed from the cluster", name)
		}
		return nil
	}
	if hasNode(c, proved) {
		return nil
	}
	_ = c.Learn(ctx) // as in refuseFormer
	if hasNode(c, proved) {
		return nil
	}
	return record.Refuse(record.NotMember, "node/%s is not a member of the cluster, as far as this node knows", proved)
}

func hasNode(c *catalog.Catalog, name string) bool {
	for _, n := range c.Shown.Load().Nodes {
		if n.Name == name {
			return true
		}
	}
	return false
}

// Answer answers one kind of call. from is 0 if the caller is not a member.
type Answer func(ctx context.Context, from peer.NodeID, request []byte) (any, error)

// AnswerTo returns an Answer that decodes the request and calls a function with it.
func AnswerTo[Q any](answer func(context.Context, Q) (any, error)) Answer {
	return func(ctx context.Context, _ peer.NodeID, request []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, fmt.Errorf("decode request: %w", err)
		}
		return answer(ctx, q)
	}
}
