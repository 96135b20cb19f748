package node

import (
	"context"
	"fmt"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/catalog"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/peers"
	"strandline.dev/internal/node/replicas"
	"strandline.dev/internal/transport/peer"
)

// register names for each question of another node the part that answers.
func (n *Node) register() {
	n.Answers.ToAnybody(peers.AskWho, func(context.Context, peer.NodeID, []byte) (any, error) { return n.self.Candidate(), nil })
	n.Answers.ToAnybody(peers.AskForm, peers.AnswerTo(func(ctx context.Context, q membership.FormRequest) (any, error) {
		return n.FormFor(ctx, q)
	}))
	n.Answers.ToAnybody(peers.AskJoin, peers.AnswerTo(func(ctx context.Context, q cluster.JoinRequest) (any, error) {
		if err := n.provedToBe(ctx, q.Name); err != nil {
			return nil, err
		}
		return n.roll.TakeIn(ctx, q)
	}))
	n.Answers.ToAnybody(peers.AskInvite, peers.AnswerTo(func(_ context.Context, q membership.Invitation) (any, error) {
		return nil, n.joiner.Invited(q)
	}))
	n.Answers.ToAnybody(peers.AskRenewCatalog, peers.AnswerTo(func(ctx context.Context, q replicas.RenewCatalogRequest) (any, error) {
		if err := n.provedToBe(ctx, q.Name); err != nil {
			return nil, err
		}
		return n.catalogRepairer.Give(ctx, q)
	}))
	n.Answers.ToAnybody(peers.AskEntries, func(ctx context.Context, from peer.NodeID, request []byte) (any, error) {
		if from == 0 && !n.catalogRepairer.Allows(request) {
			return nil, n.self.NotMember()
		}
		if refusal := n.Answers.RefuseNonMember(ctx, from); refusal != nil {
			return nil, refusal
		}
		return peers.AnswerTo(func(ctx context.Context, q replicas.EntriesRequest) (any, error) {
			return n.entryGiver.Give(ctx, q)
		})(ctx, from, request)
	})
	n.Answers.ToMembers(peers.AskCatalogAppend, peers.AnswerTo(func(ctx context.Context, q catalog.CatalogAppend) (any, error) {
		return nil, n.catalog.Load().AppendAt(ctx, q.End, q.Values)
	}))
	n.Answers.ToMembers(peers.AskTransfer, peers.AnswerTo(func(ctx context.Context, q peers.TransferRequest) (any, error) {
		return nil, n.TransferHere(ctx, q)
	}))
	n.Answers.ToMembers(peers.AskReady, peers.AnswerTo(func(ctx context.Context, log string) (any, error) {
		return nil, n.awaiter.AwaitLog(ctx, log, false)
	}))
	n.Answers.ToMembers(peers.AskLed, peers.AnswerTo(func(ctx context.Context, log string) (any, error) {
		return nil, n.awaiter.AwaitLog(ctx, log, true)
	}))
	n.Answers.ToMembers(peers.AskConfigured, peers.AnswerTo(func(ctx context.Context, q peers.ConfiguredRequest) (any, error) {
		return nil, n.awaiter.AwaitConfigured(ctx, q)
	}))
	n.Answers.ToMembers(peers.AskStatus, func(context.Context, peer.NodeID, []byte) (any, error) { return n.OwnStatus(), nil })
	n.Answers.ToMembers(peers.AskKept, peers.AnswerTo(func(ctx context.Context, q replicas.KeptRequest) (any, error) {
		return n.renewer.KeptHere(ctx, q)
	}))
	n.Answers.ToMembers(peers.AskLeads, func(context.Context, peer.NodeID, []byte) (any, error) { return n.spread.Own(), nil })
}

// provedToBe refuses a request in the name of a node whose connection proves another
// one's.
func (n *Node) provedToBe(ctx context.Context, name string) error {
	if proved := peer.ProvedName(ctx); proved != "" && proved != name {
		n.metrics.Forged.Inc()
		return fmt.Errorf("the certificate of the connection is that of node/%s, but the request is from node/%s", proved, name)
	}
	return nil
}
